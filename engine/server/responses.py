"""OpenAI's newer API: POST /v1/responses."""

import json
import re
from collections.abc import AsyncIterator, Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from time import time
from typing import Annotated, Any, Literal, Protocol
from uuid import uuid4

from llguidance import LLMatcher
from pydantic import Discriminator, Field, Tag

from engine.events import TokenLogprob
from engine.process.protocol import Loaded
from engine.request import ChatMessage, Grammar, Prompt, Request, ToolCall
from engine.server import sse
from engine.server.answers import (
    Ask,
    Began,
    Broken,
    CallArguments,
    CallBegan,
    Content,
    Ended,
    Piece,
    Pieces,
    Reasoning,
    Usage,
    Waiting,
)
from engine.server.bodies import WHOLE, Body, Limit, Object, named, read_body
from engine.server.choosing import check_choice, tools_json
from engine.server.conversation import arguments_of, in_order, note
from engine.server.errors import Refusal, invalid
from engine.server.exchange import Call, Reply, json_reply
from engine.server.fields import LENGTHS, SamplingFields, sampling_in
from engine.server.forms import OBJECT, FormFields, form_in, schema_form
from engine.server.logprobs import chat_logprobs
from engine.server.messages import MOST_MESSAGES, Message, check_newest, sent_in, text_of
from engine.server.messages import Content as MessageContent
from engine.server.service import Service
from engine.server.thinking import ThinkingFields

Name = Annotated[str, Field(min_length=1, max_length=256)]


class Item(Message):
    """What was said or done: a message, a call, its result, reasoning, or what only OpenAI's models
    know, such as a search. Their encrypted reasoning is ignored."""

    type: str = ""
    id: str = ""
    call_id: str = ""
    arguments: Any = named("arguments", "action", "operation")
    input: str = ""
    namespace: str = ""
    output: MessageContent = ""
    summary: MessageContent = ""


class FunctionTool(Body):
    type: Literal["function"]
    name: Name
    description: str | None = None
    parameters: Object | None = None
    strict: bool | None = None


class TextFormat(Body):
    type: Literal["text"]


class GrammarFormat(Body):
    type: Literal["grammar"]
    syntax: Literal["lark", "regex"]
    definition: str


class CustomTool(Body):
    """A tool whose input is text, not an object."""

    type: Literal["custom"]
    name: Name
    description: str | None = None
    format: Annotated[TextFormat | GrammarFormat, Field(discriminator="type")] | None = None


class Namespace(Body):
    """Tools with a common name; Codex sends the tools of an MCP server so."""

    type: Literal["namespace"]
    name: Name
    tools: list["Tool"]


OWN_TOOLS = ("function", "custom", "namespace")


class HostedTool(Body):
    """A tool that would run at OpenAI, or that only OpenAI's models know. It is left out."""

    type: str


def _kind_of_tool(tool: Any) -> str:
    type = tool.get("type") if isinstance(tool, dict) else getattr(tool, "type", None)
    return type if type in OWN_TOOLS else "hosted"


Tool = Annotated[
    Annotated[FunctionTool, Tag("function")]
    | Annotated[CustomTool, Tag("custom")]
    | Annotated[Namespace, Tag("namespace")]
    | Annotated[HostedTool, Tag("hosted")],
    Discriminator(_kind_of_tool),
]


class AdditionalTools(Body):
    type: Literal["additional_tools"]
    tools: list[Tool]


def _kind_of_item(item: Any) -> str:
    tools = isinstance(item, dict) and item.get("type") == "additional_tools"
    return "tools" if tools else "item"


AnyItem = Annotated[
    Annotated[Item, Tag("item")] | Annotated[AdditionalTools, Tag("tools")],
    Discriminator(_kind_of_item),
]


class NamedChoice(Body):
    """The tool that must be called."""

    type: Literal["function", "custom"]
    name: Name


class ToolReference(Body):
    type: str
    name: str | None = None


class AllowedTools(Body):
    """The tools that may be called."""

    type: Literal["allowed_tools"]
    mode: Literal["auto", "required"]
    tools: list[ToolReference]


class SchemaFormat(Body):
    type: Literal["json_schema"]
    name: str | None = None
    schema_: Annotated[dict[str, Any], Field(alias="schema")]
    strict: bool | None = None


class ObjectFormat(Body):
    type: Literal["json_object"]


class TextConfig(Body):
    format: (
        Annotated[TextFormat | SchemaFormat | ObjectFormat, Field(discriminator="type")] | None
    ) = None


class ResponsesBody(SamplingFields, FormFields, ThinkingFields):
    FORM = "text.format"
    model: str | None = None
    input: str | Annotated[list[AnyItem], Field(max_length=MOST_MESSAGES)] | None = None
    instructions: str | None = None
    tools: Annotated[list[Tool], Field(max_length=256)] | None = None
    tool_choice: Literal["none", "auto", "required"] | NamedChoice | AllowedTools | None = None
    parallel_tool_calls: bool | None = None
    text: TextConfig | None = None
    stream: bool | None = None
    include: list[str] | None = None
    max_output_tokens: Limit = named("max_output_tokens", *LENGTHS)
    top_logprobs: Annotated[int, Field(ge=0, le=20), WHOLE] | None = None
    truncation: Literal["auto", "disabled"] | None = None
    prompt: None = None  # one that is stored at OpenAI


INPUT = "input"  # the argument that holds the text


@dataclass(frozen=True, slots=True)
class KnownTool:
    """A tool by the client's names, and the `function` that the model sees.

    `pattern`: a regular expression that holds a custom tool's text, if the client gives one.
    """

    name: str
    namespace: str | None
    custom: bool
    function: dict[str, Any]
    pattern: str = ""


def known_tools(tools: Iterable[Tool]) -> dict[str, KnownTool]:
    """The client's tools, by the names that the model sees, without those that run at OpenAI."""
    return {full_name(tool.name, tool.namespace): tool for tool in _known(tools, None)}


def full_name(name: str, namespace: str | None) -> str:
    """The name that the model sees: "read" in "files" is "files__read"."""
    return f"{namespace.rstrip('_')}__{name}" if namespace else name


def _known(tools: Iterable[Tool], namespace: str | None) -> Iterator[KnownTool]:
    for tool in tools:
        match tool:
            case FunctionTool():
                yield KnownTool(tool.name, namespace, False, _function(tool, namespace))
            case CustomTool():
                function, pattern = _custom(tool, namespace), _pattern(tool)
                yield KnownTool(tool.name, namespace, True, function, pattern)
            case Namespace():
                yield from _known(tool.tools, tool.name)


def _function(tool: FunctionTool, namespace: str | None) -> dict[str, Any]:
    return {
        "name": full_name(tool.name, namespace),
        "description": tool.description or "",
        "parameters": tool.parameters or {"type": "object", "properties": {}},
        "strict": bool(tool.strict),
    }


def _custom(tool: CustomTool, namespace: str | None) -> dict[str, Any]:
    text: dict[str, Any] = {"type": "string"}
    if isinstance(tool.format, GrammarFormat):
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


def _pattern(tool: CustomTool) -> str:
    """The regular expression that holds a custom tool's text; "" if it has none that can hold it,
    or a Lark grammar: then the model only reads it."""
    if not isinstance(tool.format, GrammarFormat) or tool.format.syntax == "lark":
        return ""
    pattern = tool.format.definition
    schema = json.dumps({"type": "string", "pattern": f"^(?:{pattern})$"})
    refused, _ = LLMatcher.validate_grammar_with_warnings(
        LLMatcher.grammar_from_json_schema(schema)
    )
    return "" if refused else pattern


_BEGINNING = re.compile(rf'\s*\{{\s*"{INPUT}"\s*:\s*"')
_CHARACTERS = re.compile(  # whole ones only: two escaped halves of a surrogate pair are one
    r'(?:[^"\\]'
    r"|\\[^u]"
    r"|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|\\u(?![dD][89abAB])[0-9a-fA-F]{4})*"
)


class CustomInput:
    """Extracts the text from arguments while they arrive. Attribute: `text` so far.

    If the arguments are not the expected object, the text is the only value in them, or all of
    them: a call that the client can refuse is better than none.
    """

    def __init__(self) -> None:
        self.text = ""
        self._arguments = ""
        self._read = 0  # characters of the arguments that have been read

    def push(self, more: str) -> str:
        """Add arguments; return the text in them."""
        self._arguments += more
        if not self._read:
            beginning = _BEGINNING.match(self._arguments)
            if beginning is None:
                return ""
            self._read = beginning.end()
        whole = _CHARACTERS.match(self._arguments, self._read)
        end = self._read if whole is None else whole.end()
        given: str = json.loads(f'"{self._arguments[self._read : end]}"', strict=False)
        self._read = end
        self.text += given
        return given

    def finish(self) -> str:
        """End the arguments; return the rest of the text."""
        if self._read:
            return ""
        self.text = _only_text(self._arguments)
        return self.text


def _only_text(arguments: str) -> str:
    try:
        value = json.loads(arguments)
    except ValueError:
        return arguments
    texts = list(value.values()) if isinstance(value, dict) else [value]
    match texts:
        case [str(text)]:
            return text
        case _:
            return arguments


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
_ROLES = ("user", "assistant", "system", "developer")
_NEVER = ("service_tier", "store")  # not repeated: always the default


def ask_of(body: ResponsesBody, loaded: Loaded) -> Ask:
    """Make an `Ask` from the body. Raises Refusal."""
    tools = tools_of(body)
    check_choice(choice_of(body), [*tools])
    logprobs = "message.output_text.logprobs" in (body.include or ())
    request = Request(
        sampling=sampling_in(body, loaded),
        max_tokens=min(body.max_output_tokens or loaded.context_length, loaded.context_length),
        overflow="rolling" if body.truncation == "auto" else "stop",
        thinking=body.wish,
        thinking_budget=body.budget,
        stops=tuple(body.stop),
        grammar=form_in(body, _grammar(body.text)),
        logprobs=(body.top_logprobs or 0) if logprobs or body.top_logprobs else None,
    )
    prompt = Prompt(
        messages=messages_of(body),
        tools=tools_json([tool.function for tool in tools.values()]),
        options=body.variables,
    )
    parallel = body.parallel_tool_calls is not False
    return Ask(
        prompt=prompt,
        request=request,
        choice=choice_of(body),
        parallel=parallel,
        hidden=body.hidden,
        patterns={name: tool.pattern for name, tool in tools.items() if tool.pattern},
    )


def echoed(body: dict[str, Any]) -> dict[str, Any]:
    """The fields of a body that the response repeats; only tools that can be called here."""
    given = {name: body.get(name) for name in ASKED if name not in _NEVER}
    repeated = ASKED | {name: value for name, value in given.items() if value is not None}
    tools = [tool for tool in repeated["tools"] if tool.get("type") in OWN_TOOLS]
    return repeated | {"tools": tools}


def messages_of(body: ResponsesBody) -> tuple[ChatMessage, ...]:
    """The conversation of a body. If it has no message, an empty one is added: clients send such
    bodies to see whether there is a model."""
    messages = [ChatMessage("system", body.instructions)] if body.instructions else []
    if isinstance(body.input, str):
        messages.append(ChatMessage("user", body.input))
    else:
        items = body.input or []
        for number, item in enumerate(items):
            if isinstance(item, Item):
                place = f"input[{number}]"
                messages += _messages(item, place, newest=number == len(items) - 1)
    if all(message.role == "system" for message in messages):
        messages.append(ChatMessage("user", ""))
    return in_order(messages)


def tools_of(body: ResponsesBody) -> dict[str, KnownTool]:
    """The tools that may be called, by the names that the model sees."""
    if body.tool_choice == "none":
        return {}
    items = body.input if isinstance(body.input, list) else []
    added = [tool for item in items if isinstance(item, AdditionalTools) for tool in item.tools]
    known = known_tools([*(body.tools or ()), *added])
    if not isinstance(body.tool_choice, AllowedTools):
        return known
    allowed = {tool.name for tool in body.tool_choice.tools}
    return {name: tool for name, tool in known.items() if tool.name in allowed}


def choice_of(body: ResponsesBody) -> str:
    """The choice: "none", "auto", "required", or the name of a tool, as the model sees it."""
    match body.tool_choice:
        case None:
            return "auto"
        case NamedChoice():
            name = body.tool_choice.name
            return next((full for full, tool in tools_of(body).items() if tool.name == name), name)
        case AllowedTools():
            return body.tool_choice.mode
        case choice:
            return choice


def _grammar(text: TextConfig | None) -> Grammar | None:
    match text.format if text is not None else None:
        case SchemaFormat() as form:
            return schema_form(form.schema_, "text.format.schema", strict=bool(form.strict))
        case ObjectFormat():
            return schema_form(OBJECT, "text.format", strict=True)
        case _:
            return None


def _messages(item: Item, place: str, *, newest: bool) -> Iterator[ChatMessage]:
    """The engine's messages for an item. Raises Refusal if it is the newest and cannot be read."""
    type, called = item.type, item.type.removesuffix("_call")
    if type in ("", "message"):
        if newest:
            check_newest(item, place, _ROLES)
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
        message = f"{place} refers to what is stored. Nothing is: send the whole conversation."
        raise invalid(message, place, "unsupported_content")
    else:
        yield ChatMessage("assistant", note(type))


Json = dict[str, Any]


class Output(Protocol):
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


def call_item(id: str, call_id: str, name: str, tool: KnownTool | None) -> Output:
    """The item of a call of `tool`, which the model knows as `name`."""
    if tool is None:
        return FunctionCallItem(id, call_id, name, None)
    kind = CustomCallItem if tool.custom else FunctionCallItem
    return kind(id, call_id, tool.name, tool.namespace)


def _event(kind: str, item_id: str, /, **fields: Any) -> Json:
    return {"type": f"response.{kind}", "item_id": item_id, **fields}


def _namespace(namespace: str | None) -> Json:
    return {} if namespace is None else {"namespace": namespace}


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
    _open: Output | None = field(init=False, default=None)
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
                return self._add(call_item(self._next_id(), piece.id, piece.name, tool))
            case CallArguments():
                return self._grow(piece.text)
            case Ended():
                return self._end(piece)
            case Broken():
                return self._fail(piece.refusal)

    def _into(self, kind: type[MessageItem] | type[ReasoningItem]) -> list[Json]:
        """The events that open an item of this kind; none if one is open."""
        return [] if isinstance(self._open, kind) else self._add(kind(self._next_id()))

    def _add(self, item: Output) -> list[Json]:
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


_IN_THE_STREAM = ("context_length_exceeded", "rate_limit_exceeded")


async def responses(service: Service, call: Call) -> Reply:
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
        answer = await service.answer(call, lambda pair: ask_of(body, pair.loaded))
    except Refusal as refusal:
        if body.stream and refusal.code in _IN_THE_STREAM:
            # Codex shortens its conversation, or waits, for an event only, not for a status.
            return sse.event_reply(_frames(writer, _alone(Broken(refusal))))
        raise
    if body.stream:
        return sse.event_reply(_frames(writer, answer))
    async for _, piece in answer:
        if isinstance(piece, Broken):
            raise piece.refusal
        writer.push(piece)
    return json_reply(writer.response)


async def _frames(writer: ResponseWriter, answer: Pieces) -> AsyncIterator[bytes]:
    async for _, piece in answer:
        for event in writer.push(piece):
            yield sse.named(event["type"], event)


async def _alone(piece: Piece) -> Pieces:
    yield 0, piece
