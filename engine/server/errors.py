"""Refusals of requests, and their form in each dialect. Knows no request and no engine.

Before the first byte of an answer a refusal is the response; later it is an event of the stream.
"""

from dataclasses import dataclass
from typing import Any

from engine.events import Failed


@dataclass(eq=False)
class Refusal(Exception):
    """A request that is refused, or an answer that failed.

    `code`: OpenAI's word for the error; `param`: the field that has it. `again`: the same request
    may succeed later; clients then repeat it twice. `tokens` and `context`: of a prompt that is too
    long. `allow`: the methods of a path, if it does not have the request's.
    """

    status: int
    code: str
    message: str
    param: str | None = None
    again: bool = False
    retry_after_seconds: int = 2
    tokens: int = 0
    context: int = 0
    allow: str = ""

    @property
    def headers(self) -> dict[str, str]:
        """The headers of the response."""
        headers = {"x-should-retry": "true" if self.again else "false"}
        if self.again:
            headers["retry-after"] = str(self.retry_after_seconds)
        if self.allow:
            headers["allow"] = self.allow
        if self.status == 401:
            headers["www-authenticate"] = "Bearer"
        return headers


def invalid(message: str, param: str | None = None, code: str = "invalid_value") -> Refusal:
    """Make a refusal of a request that can never be answered."""
    return Refusal(400, code, message, param)


def not_loaded() -> Refusal:
    """Make a refusal because no model is loaded."""
    message = "No model is loaded. Try again in a few seconds."
    return Refusal(503, "model_not_ready", message, again=True, retry_after_seconds=3)


def crowded(waiting: int) -> Refusal:
    """Make a refusal because the queue is full."""
    # Codex reads the seconds to wait from this sentence.
    message = f"The queue is full: {waiting} requests are waiting. Try again in 5 seconds."
    return Refusal(429, "rate_limit_exceeded", message, again=True, retry_after_seconds=5)


def crowded_out() -> Refusal:
    """Make a refusal because too many clients are connected."""
    message = "Too many connections are open. Try again in a second."
    return Refusal(503, "too_many_connections", message, again=True, retry_after_seconds=1)


def broken() -> Refusal:
    """Make a refusal because of an internal error, whose details are in the log."""
    return Refusal(500, "server_error", "Internal error. See the server's log.")


def of_failure(failed: Failed) -> Refusal:
    """Make the refusal for a failed generation."""
    message = f"{failed.message} {failed.remedy}".strip()
    match failed.cause:
        case "request":
            return Refusal(400, "invalid_value", message)
        case "too long":
            return Refusal(
                400,
                "context_length_exceeded",
                message,
                "messages",
                tokens=failed.tokens,
                context=failed.context,
            )
        case "engine":
            return Refusal(503, "engine_failed", message, again=True)


def openai_error(refusal: Refusal) -> dict[str, Any]:
    """Return the refusal in OpenAI's form, for responses and streams."""
    message = refusal.message
    if refusal.context:  # LiteLLM recognizes a too long prompt by these words, not by the code
        message = f"This model's maximum context length is {refusal.context} tokens. {message}"
    return {
        "error": {
            "message": message,
            "type": _OPENAI_TYPES.get(refusal.status, _either(refusal, "invalid_request_error")),
            "param": refusal.param,
            "code": refusal.code,
        }
    }


def anthropic_error(refusal: Refusal, request_id: str) -> dict[str, Any]:
    """Return the refusal in Anthropic's form, for responses and streams."""
    message = refusal.message
    if refusal.context:  # by these words Claude Code knows to shorten its conversation
        message = f"prompt is too long: {refusal.tokens} tokens > {refusal.context} maximum"
    kind = _ANTHROPIC_TYPES.get(refusal.status, _either(refusal, "invalid_request_error"))
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": request_id}


def ollama_error(refusal: Refusal) -> dict[str, Any]:
    """Return the refusal in Ollama's form, for responses and streams."""
    return {"error": refusal.message}


def _either(refusal: Refusal, theirs: str) -> str:
    return theirs if refusal.status < 500 else "api_error"


_OPENAI_TYPES = {429: "rate_limit_error", 500: "server_error", 503: "server_error"}
_ANTHROPIC_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
}
