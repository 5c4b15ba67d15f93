"""OpenAI's newer API: POST /v1/responses."""

import json
import re
from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from time import time
from typing import Annotated, Any, ClassVar, Literal
from uuid import uuid4

from pydantic import Discriminator, Field, Tag
from starlette.responses import Response

from engine.events import CallPiece, Prefill, TokenLogprob
from engine.process.protocol import Loaded
from engine.request import ChatMessage, Prompt, Request, ToolCall
from engine.server.answers import Ask, Ended, Piece, Pieces, Said, Usage, call_id
from engine.server.bodies import WHOLE, Body, Limit, named, read_body
from engine.server.conversation import arguments_of, in_order, note
from engine.server.errors import Refusal, invalid
from engine.server.exchange import EVENTS, Call, Json, event, stream_reply
from engine.server.fields import LENGTHS, SamplingFields, sampling_in
from engine.server.forms import Form, FormFields, form_in, grammar_of
from engine.server.logprobs import chat_logprobs
from engine.server.messages import MOST_MESSAGES, Message, check_newest, sent_in, text_of
from engine.server.messages import Content as MessageContent
from engine.server.service import Service, frames
from engine.server.thinking import ThinkingFields
from engine.server.tools import ChoiceFields, Function, Name, call_rules, tools_json


class Item(Message):
    """An item of the conversation: a message, a call, its result, reasoning, or an item that only
    OpenAI's models know, such as a search. Their encrypted reasoning is ignored."""

    type: str = ""
    id: str = ""
    call_id: str = ""
    arguments: Any = named("arguments", "action", "operation")
    input: str = ""
    namespace: str = ""
    tools: list["Tool"] = Field(default_factory=list)
    output: MessageContent = ""
    summary: MessageContent = ""


class FunctionTool(Function):
    type: Literal["function"] = "function"


class InputFormat(Body):
    type: Literal["text", "grammar"] = "text"
    syntax: Literal["lark", "regex"] = "lark"
    definition: str = ""


class CustomTool(Body):
    """A tool whose input is text, not an object."""

    type: Literal["custom"]
    name: Name
    description: str | None = None
    format: InputFormat = InputFormat()


class Namespace(Body):
    """Tools with a common name; Codex sends the tools of an MCP server so."""

    type: Literal["namespace"]
    name: Name
    tools: list["Tool"]


OWN_TOOLS = ("function", "custom", "namespace")


class HostedTool(Body):
    """A tool that would run at OpenAI, or that only OpenAI's models know. It is left out; a tool on
    a server of the user's is refused."""

    type: str


def _kind_of_tool(tool: Any) -> str:
    type = tool.get("type") if isinstance(tool, dict) else getattr(tool, "type", "")
    return type or "function" if type in (None, *OWN_TOOLS, "mcp") else "hosted"


Tool = Annotated[
    Annotated[FunctionTool, Tag("function")]
    | Annotated[CustomTool, Tag("custom")]
    | Annotated[Namespace, Tag("namespace")]
    | Annotated[HostedTool, Tag("hosted")],
    Discriminator(_kind_of_tool),
]


Item.model_rebuild()


class TextConfig(Body):
    format: Form | None = None


class ResponsesBody(SamplingFields, FormFields, ThinkingFields, ChoiceFields):
    FORM = "text.format"
    model: str | None = None
    input: str | Annotated[list[Item], Field(max_length=MOST_MESSAGES)] = Field(
        default_factory=list
    )
    instructions: str | None = None
    tools: list[Tool] = Field(default_factory=list)
    text: TextConfig = TextConfig()
    stream: bool = False
    include: list[str] = Field(default_factory=list)
    max_output_tokens: Limit = named("max_output_tokens", *LENGTHS)
    top_logprobs: Annotated[int, Field(ge=0, le=20), WHOLE] | None = None
    truncation: Literal["auto", "disabled"] | None = None
    prompt: None = None  # a prompt that OpenAI stores: not supported


INPUT = "input"  # the argument that holds the text


@dataclass(frozen=True, slots=True)
class KnownTool:
    """A tool by the client's names, and the `function` that the model sees."""

    name: str
    namespace: str | None
    custom: bool
    function: dict[str, Any]


def known_tools(tools: Iterable[Tool]) -> dict[str, KnownTool]:
    """Return the client's tools, without OpenAI's own, by the names that the model sees."""
    return {full_name(tool.name, tool.namespace): tool for tool in _known(tools, None)}


def full_name(name: str, namespace: str | None) -> str:
    """Return the name that the model sees: "read" in "files" is "files__read"."""
    return f"{namespace.rstrip('_')}__{name}" if namespace else name


def _known(tools: Iterable[Tool], namespace: str | None) -> Iterator[KnownTool]:
    for tool in tools:
        match tool:
            case FunctionTool():
                function = tool.value(full_name(tool.name, namespace))
                yield KnownTool(tool.name, namespace, False, function)
            case CustomTool():
                yield KnownTool(tool.name, namespace, True, _custom(tool, namespace))
            case Namespace():
                yield from _known(tool.tools, tool.name)


def _custom(tool: CustomTool, namespace: str | None) -> dict[str, Any]:
    text: dict[str, Any] = {"type": "string"}
    if tool.format.type == "grammar":
        kind = "Lark grammar" if tool.format.syntax == "lark" else "regular expression"
        text["description"] = f"A text that matches this {kind}:\n{tool.format.definition}"
    return {
        "name": full_name(tool.name, namespace),
        "description": tool.description or "",
        "parameters": {
            "type": "object",
            "properties": {INPUT: text},
            "required": [INPUT],
            "additionalProperties": False,
        },
        "strict": True,
    }


_BEGINNING = re.compile(rf'\s*\{{\s*"{INPUT}"\s*:\s*"')
_CHARACTERS = re.compile(  # whole ones only: the first half of a pair waits for what follows it
    r'(?:[^"\\]'
    r"|\\[^u]"
    r"|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|\\u(?![dD][89abAB])[0-9a-fA-F]{4}"
    r"|\\u[0-9a-fA-F]{4}(?=[^\\]|\\[^u]|\\u[^dD]|\\u[dD][^c-fC-F]))*"
)


class CustomInput:
    """Extracts the text from a call's arguments while they arrive.

    If the arguments are not the expected object, the text is the only value in them, or all of
    them: a call that the client can refuse is better than none.
    """

    def __init__(self) -> None:
        self._arguments = ""
        self._read = 0  # characters of the arguments that have been read

    def push(self, more: str) -> str:
        """Add arguments; return the text in them."""
        self._arguments += more
        if not self._read:
            beginning = _BEGINNING.match(self._arguments)
            self._read = beginning.end() if beginning else 0
        if not self._read:
            return ""
        whole = _CHARACTERS.match(self._arguments, self._read)
        begin, self._read = self._read, whole.end() if whole else self._read
        given: str = json.loads(f'"{self._arguments[begin : self._read]}"', strict=False)
        return given

    def finish(self) -> str:
        """End the arguments; return the rest of the text."""
        if self._read:
            return ""
        try:
            value = json.loads(self._arguments)
        except ValueError:
            return self._arguments
        match [*value.values()] if isinstance(value, dict) else [value]:
            case [str(text)]:
                return text
            case _:
                return self._arguments


ASKED: dict[str, Any] = {
    "background": False,
    "instructions": None,
    "max_output_tokens": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "reasoning": {"effort": None, "summary": None},
    "service_tier": "default",
    "store": False,
    "temperature": None,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": None,
    "truncation": "disabled",
}
"""The fields of the request that a response repeats, with their defaults."""
_NEVER = ("service_tier", "store")  # not repeated: always the default


def ask_of(body: ResponsesBody, loaded: Loaded) -> Ask:
    """Make an `Ask` from the body. Raises Refusal."""
    tools = tools_of(body)
    names = {tool.name: name for name, tool in tools.items()}
    functions = [tool.function for tool in tools.values()]
    rules = call_rules(
        names.get(body.choice, body.choice),
        functions,
        parallel=body.parallel,
    )
    logprobs = "message.output_text.logprobs" in body.include
    request = Request(
        sampling=sampling_in(body, loaded),
        max_tokens=min(body.max_output_tokens or loaded.context_length, loaded.context_length),
        overflow="rolling" if body.truncation == "auto" else "stop",
        thinking=body.wish,
        thinking_budget=body.budget,
        stops=tuple(body.stop),
        grammar=form_in(body, grammar_of(body.text.format, "text.format")),
        calls=rules,
        logprobs=(body.top_logprobs or 0) if logprobs or body.top_logprobs else None,
    )
    prompt = Prompt(messages=messages_of(body), tools=tools_json(functions), options=body.variables)
    return Ask(prompt=prompt, request=request, hidden=body.hidden)


def echoed(body: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a body that the response repeats, with supported tools only."""
    given = {name: body.get(name) for name in ASKED if name not in _NEVER}
    repeated = ASKED | {name: value for name, value in given.items() if value is not None}
    tools = [tool for tool in repeated["tools"] if _kind_of_tool(tool) in OWN_TOOLS]
    return repeated | {"tools": tools}


def messages_of(body: ResponsesBody) -> tuple[ChatMessage, ...]:
    """Return the conversation of a body. If it has no message, an empty one is added: clients send
    such bodies to check whether the model is there."""
    messages = [ChatMessage("system", body.instructions)] if body.instructions else []
    if isinstance(body.input, str):
        messages.append(ChatMessage("user", body.input))
    else:
        for number, item in enumerate(body.input):
            place, newest = f"input[{number}]", number == len(body.input) - 1
            messages += _messages(item, place, newest=newest)
    if all(message.role == "system" for message in messages):
        messages.append(ChatMessage("user", ""))
    return in_order(messages)


def tools_of(body: ResponsesBody) -> dict[str, KnownTool]:
    """Return the tools that may be called, by the names that the model sees."""
    items = body.input if isinstance(body.input, list) else []
    tools = known_tools([*body.tools, *(tool for item in items for tool in item.tools)])
    return {name: tool for name, tool in tools.items() if body.may_call(tool.name)}


def _messages(item: Item, place: str, *, newest: bool) -> Iterator[ChatMessage]:
    """The engine's messages for an item. Raises Refusal if it is the newest and cannot be read."""
    type, called = item.type, item.type.removesuffix("_call")
    if type == "additional_tools":
        return
    if type in ("", "message"):
        if newest:
            check_newest(item, place)
        yield from item.told(place)
    elif type.endswith("_output"):
        pictures = sent_in(item.output, f"{place}.output")
        yield ChatMessage(
            "tool", text_of(item.output), tool_call_id=item.call_id, pictures=pictures
        )
    elif type in ("function_call", "custom_tool_call") or (called != type and item.call_id):
        custom = type == "custom_tool_call"
        arguments = arguments_of({INPUT: item.input} if custom else item.arguments)
        name = full_name(item.name or called, item.namespace)
        yield ChatMessage(
            "assistant", "", tool_calls=(ToolCall(item.call_id or item.id, name, arguments),)
        )
    elif type == "reasoning":
        yield ChatMessage("assistant", "", reasoning=text_of(item.content) or text_of(item.summary))
    elif newest and type == "item_reference":
        message = f"{place}: Nothing is stored here. Send the whole conversation."
        raise invalid(message, place, "unsupported_content")
    else:
        yield ChatMessage("assistant", note(type))


class TextItem:
    """A message, or the model's reasoning: an item with one part, a text. Attribute: `json`, the
    item so far."""

    def __init__(self, id: str, kind: Literal["output_text", "reasoning_text"]) -> None:
        self.kind = kind
        self._part: Json = {"type": kind, "text": ""}
        if kind == "output_text":
            self._part |= {"annotations": [], "logprobs": []}
            head: Json = {"id": f"msg_{id}", "type": "message", "role": "assistant"}
            self.json = head | {"status": "in_progress", "content": []}
        else:
            head = {"id": f"rs_{id}", "type": "reasoning", "status": "in_progress", "summary": []}
            self.json = head | {"content": [], "encrypted_content": None}

    def begin(self) -> list[Json]:
        """Return the events that follow the event "added"."""
        self.json["content"].append(self._part)
        return [self._event("content_part.added", part=deepcopy(self._part))]

    def grow(self, text: str, logprobs: tuple[TokenLogprob, ...] = ()) -> list[Json]:
        """Add text; return its events."""
        self._part["text"] += text
        more: Json = {}
        if self.kind == "output_text":
            more["logprobs"] = chat_logprobs(logprobs)
            self._part["logprobs"] += more["logprobs"]
        return [self._event(f"{self.kind}.delta", delta=text, **more)]

    def end(self) -> list[Json]:
        """Return the events that precede the event "done"."""
        part = deepcopy(self._part)
        written = {name: part[name] for name in ("text", "logprobs") if name in part}
        return [
            self._event(f"{self.kind}.done", **written),
            self._event("content_part.done", part=part),
        ]

    def _event(self, kind: str, **fields: Any) -> Json:
        return _event(kind, self.json["id"], content_index=0, **fields)


class CallItem:
    """A call of a function, or of a custom tool, whose input is text. Attribute: `json`."""

    kind = "call"

    def __init__(self, id: str, call_id: str, name: str, tool: KnownTool | None) -> None:
        """`name`: as the model calls the `tool`, which the client may not know."""
        custom = tool is not None and tool.custom
        self._input = CustomInput() if custom else None
        self._field = "input" if custom else "arguments"
        self._events = "custom_tool_call_input" if custom else "function_call_arguments"
        self.json: Json = {
            "id": f"ctc_{id}" if custom else f"fc_{id}",
            "type": "custom_tool_call" if custom else "function_call",
            "status": "in_progress",
            "call_id": call_id,
            "name": tool.name if tool else name,
            self._field: "",
        }
        if tool is not None and tool.namespace is not None:
            self.json["namespace"] = tool.namespace

    def begin(self) -> list[Json]:
        return []

    def grow(self, text: str, logprobs: tuple[TokenLogprob, ...] = ()) -> list[Json]:
        return self._more(text if self._input is None else self._input.push(text))

    def end(self) -> list[Json]:
        rest = self._more("" if self._input is None else self._input.finish())
        names = [self._field] if self._input else ["name", self._field]
        done = {name: self.json[name] for name in names}
        return [*rest, _event(f"{self._events}.done", self.json["id"], **done)]

    def _more(self, text: str) -> list[Json]:
        if not text:
            return []
        self.json[self._field] += text
        return [_event(f"{self._events}.delta", self.json["id"], delta=text)]


def _event(kind: str, item_id: str, /, **fields: Any) -> Json:
    return {"type": f"response.{kind}", "item_id": item_id, **fields}


@dataclass(slots=True)
class ResponseWriter:
    """Turns pieces into events. `whole` is the response so far.

    `id`: the common part of all its ids. `asked`: the fields of the request that a response
    repeats. `tools`: the client's, by the names that the model sees.
    """

    id: str
    model: str
    created_at: int
    asked: Json
    tools: dict[str, KnownTool] = field(default_factory=dict)
    media: ClassVar[str] = EVENTS
    whole: Json = field(init=False)
    _open: TextItem | CallItem | None = field(init=False, default=None)
    _written: int = field(init=False, default=0)  # events

    def __post_init__(self) -> None:
        self.whole = {
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

    @staticmethod
    def frame(part: Json) -> bytes:
        return event(part, part["type"])

    def push(self, piece: Piece, number: int = 0) -> list[Json]:
        begun = [] if self._written else [self._state("created"), self._state("in_progress")]
        events = begun + self._push(piece)
        for made in events:
            made["sequence_number"] = self._written
            self._written += 1
        return events

    def _push(self, piece: Piece) -> list[Json]:
        match piece:
            case None:
                return [self._state("in_progress")]
            case Prefill():
                return []
            case Said(kind, text, logprobs):
                opened = self._into("reasoning_text" if kind == "reasoning" else "output_text")
                return [*opened, *self._grow(text, logprobs)]
            case CallPiece(_, name, arguments):
                begun = []
                if name:
                    tool = self.tools.get(name)
                    begun = self._add(CallItem(self._next_id, call_id(), name, tool))
                return [*begun, *self._grow(arguments)]
            case Ended():
                return self._end(piece)
            case Refusal():
                return self._fail(piece)

    def _into(self, kind: Literal["output_text", "reasoning_text"]) -> list[Json]:
        """The events that open an item of this kind; none if one is open."""
        same = self._open is not None and self._open.kind == kind
        return [] if same else self._add(TextItem(self._next_id, kind))

    def _add(self, item: TextItem | CallItem) -> list[Json]:
        done = self._close("completed")
        self.whole["output"].append(item.json)
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
        return [{**event, "output_index": len(self.whole["output"]) - 1} for event in events]

    def _end(self, ended: Ended) -> list[Json]:
        status = "incomplete" if ended.reason == "length" else "completed"
        rest: list[Json] = []
        if ended.logprobs and self._open is not None and self._open.kind == "output_text":
            rest = self._grow("", ended.logprobs)
        done = [*rest, *self._close(status)]
        self.whole |= {"status": status, "usage": _usage(ended.usage)}
        if status == "incomplete":
            self.whole["incomplete_details"] = {"reason": "max_output_tokens"}
        return [*done, self._state(status)]

    def _fail(self, refusal: Refusal) -> list[Json]:
        error = {"code": refusal.code, "message": refusal.message}
        self.whole |= {"status": "failed", "error": error}
        return [self._state("failed")]

    def _state(self, name: str) -> Json:
        return {"type": f"response.{name}", "response": deepcopy(self.whole)}

    @property
    def _next_id(self) -> str:
        return f"{self.id}_{len(self.whole['output'])}"


def _usage(usage: Usage) -> Json:
    stats = usage.stats
    return {
        "input_tokens": stats.prompt_tokens,
        "input_tokens_details": {"cached_tokens": stats.reused_tokens, "cache_write_tokens": 0},
        "output_tokens": stats.committed,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": stats.prompt_tokens + stats.committed,
    }


_IN_THE_STREAM = ("context_length_exceeded", "rate_limit_exceeded")


async def responses(service: Service, call: Call) -> Response:
    """POST /responses: write a response."""
    body = read_body(ResponsesBody, call.body)
    writer = ResponseWriter(
        id=uuid4().hex,
        model=service.model,
        created_at=int(time()),
        asked=echoed(call.body),
        tools=tools_of(body),
    )

    try:
        return await service.reply(call, partial(ask_of, body), writer, stream=body.stream)
    except Refusal as refusal:
        if not body.stream or refusal.code not in _IN_THE_STREAM:
            raise
        # Codex shortens its conversation, or waits, for an event only, not for a status.
        return stream_reply(frames(writer, _alone(refusal)))


async def _alone(piece: Piece) -> Pieces:
    yield 0, piece
