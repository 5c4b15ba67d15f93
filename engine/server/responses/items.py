"""The items of a response: the JSON of each, and the events that build it.

The writer adds to each event the item's place in the response, and the event's number.
"""

from typing import Any, Protocol

from engine.events import TokenLogprob
from engine.server.logprobs import chat_logprobs
from engine.server.responses.custom_input import CustomInput
from engine.server.responses.tools import KnownTool

Json = dict[str, Any]


class Item(Protocol):
    """An item. Attribute: `json`, the item so far."""

    json: Json

    def begin(self) -> list[Json]:
        """The events that follow the event "added"."""

    def grow(self, text: str, logprobs: tuple[TokenLogprob, ...] = ()) -> list[Json]:
        """Add text; return its events."""

    def end(self) -> list[Json]:
        """Return the events that precede the event "done"."""


class MessageItem:
    """A message: text for the reader."""

    def __init__(self, id: str) -> None:
        self.json: Json = {
            "id": f"msg_{id}",
            "type": "message",
            "role": "assistant",
            "status": "in_progress",
            "content": [],
        }
        self._part: Json = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}

    def begin(self) -> list[Json]:
        self.json["content"].append(self._part)
        return [self._event("content_part.added", part=self._copy())]

    def grow(self, text: str, logprobs: tuple[TokenLogprob, ...] = ()) -> list[Json]:
        scores = chat_logprobs(logprobs)
        self._part["text"] += text
        self._part["logprobs"] += scores
        return [self._event("output_text.delta", delta=text, logprobs=scores)]

    def end(self) -> list[Json]:
        part = self._copy()
        return [
            self._event("output_text.done", text=part["text"], logprobs=part["logprobs"]),
            self._event("content_part.done", part=part),
        ]

    def _event(self, kind: str, **fields: Any) -> Json:
        return _event(kind, self.json["id"], content_index=0, **fields)

    def _copy(self) -> Json:
        return {**self._part, "logprobs": [*self._part["logprobs"]]}


class ReasoningItem:
    """The model's reasoning."""

    def __init__(self, id: str) -> None:
        self.json: Json = {
            "id": f"rs_{id}",
            "type": "reasoning",
            "status": "in_progress",
            "summary": [],
            "content": [],
            "encrypted_content": None,
        }
        self._part: Json = {"type": "reasoning_text", "text": ""}

    def begin(self) -> list[Json]:
        self.json["content"].append(self._part)
        return [self._event("content_part.added", part={**self._part})]

    def grow(self, text: str, logprobs: tuple[TokenLogprob, ...] = ()) -> list[Json]:
        self._part["text"] += text
        return [self._event("reasoning_text.delta", delta=text)]

    def end(self) -> list[Json]:
        return [
            self._event("reasoning_text.done", text=self._part["text"]),
            self._event("content_part.done", part={**self._part}),
        ]

    def _event(self, kind: str, **fields: Any) -> Json:
        return _event(kind, self.json["id"], content_index=0, **fields)


class FunctionCallItem:
    """A call of a function, with JSON arguments."""

    def __init__(self, id: str, call_id: str, name: str, namespace: str | None) -> None:
        self.json: Json = {
            "id": f"fc_{id}",
            "type": "function_call",
            "status": "in_progress",
            "call_id": call_id,
            "name": name,
            "arguments": "",
        } | _namespace(namespace)

    def begin(self) -> list[Json]:
        return []

    def grow(self, text: str, logprobs: tuple[TokenLogprob, ...] = ()) -> list[Json]:
        self.json["arguments"] += text
        return [_event("function_call_arguments.delta", self.json["id"], delta=text)]

    def end(self) -> list[Json]:
        done = {key: self.json[key] for key in ("name", "arguments")}
        return [_event("function_call_arguments.done", self.json["id"], **done)]


class CustomCallItem:
    """A call of a custom tool, with text as its input."""

    def __init__(self, id: str, call_id: str, name: str, namespace: str | None) -> None:
        self.json: Json = {
            "id": f"ctc_{id}",
            "type": "custom_tool_call",
            "status": "in_progress",
            "call_id": call_id,
            "name": name,
            "input": "",
        } | _namespace(namespace)
        self._input = CustomInput()

    def begin(self) -> list[Json]:
        return []

    def grow(self, text: str, logprobs: tuple[TokenLogprob, ...] = ()) -> list[Json]:
        return self._more(self._input.push(text))

    def end(self) -> list[Json]:
        rest = self._more(self._input.finish())
        done = _event("custom_tool_call_input.done", self.json["id"], input=self.json["input"])
        return [*rest, done]

    def _more(self, text: str) -> list[Json]:
        if not text:
            return []
        self.json["input"] += text
        return [_event("custom_tool_call_input.delta", self.json["id"], delta=text)]


def called(id: str, call_id: str, name: str, tool: KnownTool | None) -> Item:
    """The item of a call of `tool`, which the model knows as `name`."""
    if tool is None:
        return FunctionCallItem(id, call_id, name, None)
    kind = CustomCallItem if tool.custom else FunctionCallItem
    return kind(id, call_id, tool.name, tool.namespace)


def _event(kind: str, item_id: str, /, **fields: Any) -> Json:
    return {"type": f"response.{kind}", "item_id": item_id, **fields}


def _namespace(namespace: str | None) -> Json:
    return {} if namespace is None else {"namespace": namespace}
