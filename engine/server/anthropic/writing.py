"""Writes an answer in Anthropic's form: a message, and the events that build it.

A stream and a whole message have the same content, as one is made from the other.
"""

import json
from dataclasses import dataclass, field
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
from engine.server.errors import anthropic_error

Json = dict[str, Any]
SIGNATURE = "slipstream"  # clients want one that is not empty, and send it back with the thinking


@dataclass(slots=True)
class MessageWriter:
    """Turns pieces into events. `message` is the message so far.

    `max_tokens`: the client's limit. `omit_thinking`: send thinking blocks without their text.
    """

    id: str
    model: str
    request_id: str
    max_tokens: int
    omit_thinking: bool = False
    message: Json = field(init=False)
    _open: str = field(init=False, default="")  # the type of the block that is being written
    _arguments: str = field(init=False, default="")

    def __post_init__(self) -> None:
        self.message = {
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": _usage(0, 0, 0),
        }

    def push(self, piece: Piece) -> list[Json]:
        match piece:
            case Waiting():
                return [{"type": "ping"}]
            case Began():
                self.message["usage"] = _usage(piece.prompt_tokens, piece.cached_tokens, 0)
                return [{"type": "message_start", "message": {**self.message, "content": []}}]
            case Content():
                return self._text("text", "text", piece.text)
            case Reasoning():
                return self._text("thinking", "thinking", piece.text)
            case CallBegan():
                block = {"type": "tool_use", "id": piece.id, "name": piece.name, "input": {}}
                return [*self._close(), self._begin(block)]
            case CallArguments():
                self._arguments += piece.text
                return [self._delta({"type": "input_json_delta", "partial_json": piece.text})]
            case Ended():
                return self._end(piece)
            case Broken():
                return [anthropic_error(piece.refusal, self.request_id)]

    def _text(self, type: str, key: str, text: str) -> list[Json]:
        events = []
        if self._open != type:
            block = {"type": type, key: ""} | ({"signature": ""} if type == "thinking" else {})
            events = [*self._close(), self._begin(block)]
        if type == "thinking" and self.omit_thinking:
            return events
        self.message["content"][-1][key] += text
        return [*events, self._delta({"type": f"{type}_delta", key: text})]

    def _begin(self, block: Json) -> Json:
        self._open, self._arguments = block["type"], ""
        self.message["content"].append(block)
        return {"type": "content_block_start", "index": self._index, "content_block": {**block}}

    def _delta(self, delta: Json) -> Json:
        return {"type": "content_block_delta", "index": self._index, "delta": delta}

    def _close(self) -> list[Json]:
        if not self._open:
            return []
        block, events = self.message["content"][-1], []
        if self._open == "thinking":
            block["signature"] = SIGNATURE
            events = [self._delta({"type": "signature_delta", "signature": SIGNATURE})]
        elif self._open == "tool_use":
            block["input"] = _object(self._arguments)
        self._open = ""
        return [*events, {"type": "content_block_stop", "index": self._index}]

    def _end(self, ended: Ended) -> list[Json]:
        stop, usage = ended.stop_string, ended.usage
        reason = "stop_sequence" if stop else _STOP_REASONS[ended.reason]
        if reason == "max_tokens" and usage.completion < self.max_tokens:
            reason = "model_context_window_exceeded"
        self.message |= {
            "stop_reason": reason,
            "stop_sequence": stop or None,
            "usage": _usage(usage.prompt, usage.cached, usage.completion),
        }
        delta = {key: self.message[key] for key in ("stop_reason", "stop_sequence")}
        last = {"type": "message_delta", "delta": delta, "usage": self.message["usage"]}
        return [*self._close(), last, {"type": "message_stop"}]

    @property
    def _index(self) -> int:
        return len(self.message["content"]) - 1


_STOP_REASONS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}


def _usage(prompt_tokens: int, cached_tokens: int, output_tokens: int) -> Json:
    return {
        "input_tokens": prompt_tokens - cached_tokens,
        "cache_read_input_tokens": cached_tokens,
        "cache_creation_input_tokens": 0,
        "output_tokens": output_tokens,
    }


def _object(arguments: str) -> Json:
    """A call's arguments as an object; {} if the answer ended within them."""
    try:
        value = json.loads(arguments or "{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
