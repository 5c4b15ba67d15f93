"""Writes an answer in Ollama's form: objects that each have the next part, and one with figures.

A whole answer is these objects, joined.
"""

import json
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from time import perf_counter_ns
from typing import Any

from engine.server.answers import (
    Began,
    Broken,
    CallArguments,
    CallBegan,
    Content,
    Ended,
    Piece,
    Reasoning,
    Waiting,
)
from engine.server.errors import Refusal, ollama_error
from engine.server.logprobs import chat_logprobs

Json = dict[str, Any]


@dataclass(slots=True)
class ReplyWriter:
    """Turns pieces into objects. `chat`: the parts are a message; otherwise a text. `context`: the
    tokens that the client reckons with, 0 if it does not say."""

    model: str
    chat: bool
    logprobs: bool = False
    context: int = 0
    _call: Json | None = field(init=False, default=None)  # the call that is being written
    _arguments: str = field(init=False, default="")
    _began: int = field(init=False, default_factory=perf_counter_ns)
    _reads: int = field(init=False, default=0)
    _writes: int = field(init=False, default=0)

    def push(self, piece: Piece) -> list[Json]:
        """The objects of a piece. A call is sent whole, as its arguments are an object."""
        match piece:
            case Waiting():
                return [self._part()]
            case CallArguments():
                self._arguments += piece.text
                return []
            case Began():
                self._reads = perf_counter_ns()
                return []
            case Broken():
                return [ollama_error(self.refused(piece.refusal))]
        self._writes = self._writes or perf_counter_ns()
        called = self._called()
        match piece:
            case Content():
                scores = {"logprobs": chat_logprobs(piece.logprobs)} if self.logprobs else {}
                return [*called, self._part(piece.text) | scores]
            case Reasoning():
                return [*called, self._part(thinking=piece.text)]
            case CallBegan():
                self._call = {"id": piece.id, "function": {"name": piece.name}}
                return called
            case Ended():
                return [*called, self._end(piece)]

    def refused(self, refusal: Refusal) -> Refusal:
        """The refusal, which says so if a prompt is too long because the model was loaded with a
        shorter context than the client reckons with."""
        if not 0 < refusal.context < self.context:
            return refusal
        shorter = f"num_ctx is {self.context}, and the model was loaded with {refusal.context}."
        return replace(refusal, message=f"{refusal.message} {shorter}", param="options.num_ctx")

    def nothing(self, reason: str) -> Json:
        """The answer to a request without a prompt. `reason`: "load" or "unload"."""
        return {**self._part(), "done": True, "done_reason": reason}

    def joined(self, parts: list[Json]) -> Json:
        """The whole answer of these objects, of which the last has the figures."""
        found = dict(parts[-1])
        within = found["message"] if self.chat else found
        text = "content" if self.chat else "response"
        for part in parts[:-1]:
            more = part["message"] if self.chat else part
            within[text] += more[text]
            if "thinking" in more:
                within["thinking"] = within.get("thinking", "") + more["thinking"]
            if "tool_calls" in more:
                within["tool_calls"] = within.get("tool_calls", []) + more["tool_calls"]
            if "logprobs" in part:
                found["logprobs"] = found.get("logprobs", []) + part["logprobs"]
        return found

    def _part(self, text: str = "", *, thinking: str = "", calls: list[Json] | None = None) -> Json:
        more: Json = ({"thinking": thinking} if thinking else {}) | (
            {"tool_calls": calls} if calls else {}
        )
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        head = {"model": self.model, "created_at": now}
        if self.chat:
            return {
                **head,
                "message": {"role": "assistant", "content": text, **more},
                "done": False,
            }
        return {**head, "response": text, **more, "done": False}

    def _called(self) -> list[Json]:
        """The object of the call that was being written. One that was cut off is left out."""
        call, self._call = self._call, None
        arguments, self._arguments = self._arguments, ""
        if call is None:
            return []
        try:
            call["function"]["arguments"] = json.loads(arguments or "{}")
        except ValueError:
            return []
        return [self._part(calls=[call])]

    def _end(self, ended: Ended) -> Json:
        now, usage = perf_counter_ns(), ended.usage
        return self._part() | {
            "done": True,
            "done_reason": "length" if ended.reason == "length" else "stop",
            "total_duration": now - self._began,
            "load_duration": 0,
            "prompt_eval_count": usage.prompt,
            "prompt_eval_duration": self._writes - (self._reads or self._began),
            "eval_count": usage.completion,
            "eval_duration": now - self._writes,
        }
