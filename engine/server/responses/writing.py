"""Writes an answer in the form of /v1/responses: a response with its items, and its events.

A stream and a whole response have the same content, as one is made from the other. Clients rebuild
the response from the events, and are strict: an item is added before it grows, and done before the
next is added; each event about the response has all items so far.
"""

from copy import deepcopy
from dataclasses import dataclass, field

from engine.events import TokenLogprob
from engine.server.answers import (
    Began,
    Broken,
    CallArguments,
    CallBegan,
    Content,
    Ended,
    Piece,
    Reasoning,
    Usage,
    Waiting,
)
from engine.server.errors import Refusal
from engine.server.responses.items import Item, Json, MessageItem, ReasoningItem, called
from engine.server.responses.tools import KnownTool


@dataclass(slots=True)
class ResponseWriter:
    """Turns pieces into events. `response` is the response so far.

    `id`: the common part of all its ids. `asked`: the fields of the request that a response
    repeats. `tools`: the client's, by the names that the model sees.
    """

    id: str
    model: str
    created_at: int
    asked: Json
    tools: dict[str, KnownTool] = field(default_factory=dict)
    response: Json = field(init=False)
    _open: Item | None = field(init=False, default=None)
    _written: int = field(init=False, default=0)  # events

    def __post_init__(self) -> None:
        self.response = {
            "id": f"resp_{self.id}",
            "object": "response",
            "created_at": self.created_at,
            "status": "in_progress",
            "error": None,
            "incomplete_details": None,
            "model": self.model,
            **self.asked,
            "output": [],
            "usage": None,
        }

    def push(self, piece: Piece) -> list[Json]:
        begun = [] if self._written else [self._state("created"), self._state("in_progress")]
        events = begun + self._push(piece)
        for event in events:
            event["sequence_number"] = self._written
            self._written += 1
        return events

    def _push(self, piece: Piece) -> list[Json]:
        match piece:
            case Waiting():
                return [self._state("in_progress")]
            case Began():
                return []
            case Content():
                return [*self._into(MessageItem), *self._grow(piece.text, piece.logprobs)]
            case Reasoning():
                return [*self._into(ReasoningItem), *self._grow(piece.text)]
            case CallBegan():
                tool = self.tools.get(piece.name)
                return self._add(called(self._next_id(), piece.id, piece.name, tool))
            case CallArguments():
                return self._grow(piece.text)
            case Ended():
                return self._end(piece)
            case Broken():
                return self._fail(piece.refusal)

    def _into(self, kind: type[MessageItem] | type[ReasoningItem]) -> list[Json]:
        """The events that open an item of this kind; none if one is open."""
        return [] if isinstance(self._open, kind) else self._add(kind(self._next_id()))

    def _add(self, item: Item) -> list[Json]:
        done = self._close("completed")
        self.response["output"].append(item.json)
        self._open = item
        added = {"type": "response.output_item.added", "item": deepcopy(item.json)}
        return [*done, *self._placed([added, *item.begin()])]

    def _grow(self, text: str, logprobs: tuple[TokenLogprob, ...] = ()) -> list[Json]:
        assert self._open is not None
        return self._placed(self._open.grow(text, logprobs))

    def _close(self, status: str) -> list[Json]:
        """The events that close the open item, if there is one."""
        if self._open is None:
            return []
        ending = self._open.end()
        self._open.json["status"] = status
        done = {"type": "response.output_item.done", "item": deepcopy(self._open.json)}
        self._open = None
        return self._placed([*ending, done])

    def _placed(self, events: list[Json]) -> list[Json]:
        return [{**event, "output_index": len(self.response["output"]) - 1} for event in events]

    def _end(self, ended: Ended) -> list[Json]:
        status = "incomplete" if ended.reason == "length" else "completed"
        done = self._close(status)
        self.response |= {"status": status, "usage": _usage(ended.usage)}
        if status == "incomplete":
            self.response["incomplete_details"] = {"reason": "max_output_tokens"}
        return [*done, self._state(status)]

    def _fail(self, refusal: Refusal) -> list[Json]:
        error = {"code": refusal.code, "message": refusal.message}
        self.response |= {"status": "failed", "error": error}
        return [self._state("failed")]

    def _state(self, name: str) -> Json:
        return {"type": f"response.{name}", "response": deepcopy(self.response)}

    def _next_id(self) -> str:
        return f"{self.id}_{len(self.response['output'])}"


def _usage(usage: Usage) -> Json:
    return {
        "input_tokens": usage.prompt,
        "input_tokens_details": {"cached_tokens": usage.cached, "cache_write_tokens": 0},
        "output_tokens": usage.completion,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.prompt + usage.completion,
    }
