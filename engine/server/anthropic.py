"""Anthropic's API: POST /v1/messages and /v1/messages/count_tokens.

Fields that are not here are ignored, and null is the same as a missing field.
"""

import json
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, ClassVar, Literal
from uuid import uuid4

from pydantic import AliasChoices, Field
from starlette.responses import Response

from engine.events import CallPiece, Prefill
from engine.process.protocol import Loaded
from engine.request import ChatMessage, Prompt, Request, Thinking, thinking_of
from engine.server.answers import Ask, Ended, Piece, Said, arguments_in, call_id
from engine.server.bodies import WHOLE, Body, read_body
from engine.server.conversation import BETWEEN
from engine.server.errors import Refusal, anthropic_error
from engine.server.exchange import EVENTS, Call, Json, event, json_reply
from engine.server.fields import LENGTHS, SamplingFields, sampling_in
from engine.server.forms import Form, FormFields, form_in, grammar_of
from engine.server.messages import Messages, conversation_of
from engine.server.service import Service
from engine.server.thinking import ThinkingFields
from engine.server.tools import ChoiceFields, Function, call_rules, tools_json


class TextBlock(Body):
    type: Literal["text"]
    text: str


class Tool(Function):
    """A tool. Tools of another `type` than "custom", or OpenAI's "function", run at Anthropic, and
    are left out."""

    type: str = "custom"


class OutputConfig(Body):
    effort: str | None = None
    format: Form | None = None


class CountTokensBody(ThinkingFields, ChoiceFields):
    """The fields that the prompt is made of."""

    model: str | None = None
    messages: Messages
    system: str | list[TextBlock] | None = None
    tools: list[Tool] = Field(default_factory=list)
    output_config: OutputConfig | None = None


class MessagesBody(CountTokensBody, SamplingFields, FormFields):
    """A request for a message. `output_format` is the older name of what `output_config` has."""

    FORM = "output_config.format"
    max_tokens: Annotated[int, Field(ge=1), WHOLE] = Field(validation_alias=AliasChoices(*LENGTHS))
    stream: bool | None = None
    output_format: Form | None = None


_BILLING = "x-anthropic-billing-header:"


def ask_of(body: MessagesBody, loaded: Loaded) -> Ask:
    """Make an `Ask` from the body. Raises Refusal."""
    rules = call_rules(body.choice, functions_of(body), parallel=body.parallel)
    form = (body.output_config.format if body.output_config else None) or body.output_format
    request = Request(
        sampling=sampling_in(body, loaded),
        max_tokens=min(body.max_tokens, loaded.context_length),
        thinking=thinking_in(body),
        thinking_budget=body.budget,
        stops=tuple(body.stop),
        grammar=form_in(body, grammar_of(form, "output_config.format", strict=True)),
        calls=rules,
    )
    return Ask(prompt=prompt_of(body), request=request, hidden=body.hidden)


def prompt_of(body: CountTokensBody) -> Prompt:
    """Return the prompt of a body."""
    return Prompt(
        messages=messages_of(body),
        tools=tools_json(functions_of(body)),
        options=options_of(body),
    )


def messages_of(body: CountTokensBody) -> tuple[ChatMessage, ...]:
    """Return the conversation of a body.

    Claude Code begins its system prompt with a billing line that changes with each request. It is
    left out: the cache could not be used for anything after it.
    """
    given = [body.system] if isinstance(body.system, str) else [b.text for b in body.system or ()]
    kept = [text for text in given if text and not text.startswith(_BILLING)]
    system = [ChatMessage("system", BETWEEN.join(kept))] if kept else []
    return conversation_of(body.messages, *system)


def functions_of(body: CountTokensBody) -> list[dict[str, Any]]:
    """Return the tools that may be called, in OpenAI's form, without Anthropic's own."""
    own = ("custom", "function")
    tools = [tool for tool in body.tools if tool.type in own and body.may_call(tool.name)]
    return [tool.value() for tool in tools]


def thinking_in(body: CountTokensBody) -> Thinking:
    """Return whether the model reasons, and with how much effort."""
    wish = body.wish or "off"
    return thinking_of(_effort(body) if wish == "on" else None) or wish


def options_of(body: CountTokensBody) -> str:
    """Return the variables of the chat template. Effort without thinking is among them, for models
    that always reason."""
    effort = _effort(body)
    off = effort and thinking_in(body) == "off"
    given = {"reasoning_effort": effort} if off else {}
    return json.dumps(given | body.chat_template_kwargs) if given else body.variables


def _effort(body: CountTokensBody) -> str | None:
    return body.output_config.effort if body.output_config is not None else None


SIGNATURE = "slipstream"  # must not be empty: clients send it back with the thinking


@dataclass(slots=True)
class MessageWriter:
    """Turns pieces into events. `whole` is the message so far.

    `max_tokens`: the client's limit. `omit_thinking`: send thinking blocks without their text.
    """

    id: str
    model: str
    request_id: str
    max_tokens: int
    omit_thinking: bool = False
    media: ClassVar[str] = EVENTS
    whole: Json = field(init=False)
    _open: str = field(init=False, default="")  # the type of the block that is being written
    _arguments: str = field(init=False, default="")

    def __post_init__(self) -> None:
        self.whole = {
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": _usage(0, 0, 0),
        }

    @staticmethod
    def frame(part: Json) -> bytes:
        return event(part, part["type"])

    def push(self, piece: Piece, number: int = 0) -> list[Json]:
        match piece:
            case None:
                return [{"type": "ping"}]
            case Prefill():
                self.whole["usage"] = _usage(piece.total, piece.reused, 0)
                return [{"type": "message_start", "message": {**self.whole, "content": []}}]
            case Said(kind, text):
                return self._text("thinking" if kind == "reasoning" else "text", text)
            case CallPiece():
                return self._called(piece)
            case Ended():
                return self._end(piece)
            case Refusal():
                return [anthropic_error(piece, self.request_id)]

    def _text(self, type: str, text: str) -> list[Json]:
        events = []
        if self._open != type:
            block = {"type": type, type: ""} | ({"signature": ""} if type == "thinking" else {})
            events = [*self._close(), self._begin(block)]
        if type == "thinking" and self.omit_thinking:
            return events
        self.whole["content"][-1][type] += text
        return [*events, self._delta({"type": f"{type}_delta", type: text})]

    def _called(self, piece: CallPiece) -> list[Json]:
        events = []
        if piece.name:
            block = {"type": "tool_use", "id": call_id(), "name": piece.name, "input": {}}
            events = [*self._close(), self._begin(block)]
        if piece.arguments:
            self._arguments += piece.arguments
            delta = {"type": "input_json_delta", "partial_json": piece.arguments}
            events.append(self._delta(delta))
        return events

    def _begin(self, block: Json) -> Json:
        self._open, self._arguments = block["type"], ""
        self.whole["content"].append(block)
        return {"type": "content_block_start", "index": self._index, "content_block": {**block}}

    def _delta(self, delta: Json) -> Json:
        return {"type": "content_block_delta", "index": self._index, "delta": delta}

    def _close(self) -> list[Json]:
        if not self._open:
            return []
        block, events = self.whole["content"][-1], []
        if self._open == "thinking":
            block["signature"] = SIGNATURE
            events = [self._delta({"type": "signature_delta", "signature": SIGNATURE})]
        elif self._open == "tool_use":
            block["input"] = arguments_in(self._arguments)
        self._open = ""
        return [*events, {"type": "content_block_stop", "index": self._index}]

    def _end(self, ended: Ended) -> list[Json]:
        stop, stats = ended.stop_string, ended.usage.stats
        reason = "stop_sequence" if stop else _STOP_REASONS[ended.reason]
        if reason == "max_tokens" and stats.committed < self.max_tokens:
            reason = "model_context_window_exceeded"
        self.whole |= {
            "stop_reason": reason,
            "stop_sequence": stop or None,
            "usage": _usage(stats.prompt_tokens, stats.reused_tokens, stats.committed),
        }
        delta = {key: self.whole[key] for key in ("stop_reason", "stop_sequence")}
        last = {"type": "message_delta", "delta": delta, "usage": self.whole["usage"]}
        return [*self._close(), last, {"type": "message_stop"}]

    @property
    def _index(self) -> int:
        return len(self.whole["content"]) - 1


_STOP_REASONS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}


def _usage(prompt_tokens: int, cached_tokens: int, output_tokens: int) -> Json:
    return {
        "input_tokens": prompt_tokens - cached_tokens,
        "cache_read_input_tokens": cached_tokens,
        "cache_creation_input_tokens": 0,
        "output_tokens": output_tokens,
    }


async def messages(service: Service, call: Call) -> Response:
    """POST /messages: write the next message of a conversation."""
    body = read_body(MessagesBody, call.body)
    writer = MessageWriter(
        id=f"msg_{uuid4().hex}",
        model=service.model,
        request_id=call.id,
        max_tokens=body.max_tokens,
        omit_thinking=body.thinking is not None and body.thinking.display == "omitted",
    )
    return await service.reply(call, partial(ask_of, body), writer, stream=bool(body.stream))


async def count_tokens(service: Service, call: Call) -> Response:
    """POST /messages/count_tokens: count the tokens of a prompt."""
    body = read_body(CountTokensBody, call.body)
    return json_reply({"input_tokens": await service.count(prompt_of(body), thinking_in(body))})
