"""OpenAI's API: POST /v1/chat/completions and /v1/completions."""

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field
from starlette.responses import Response

from engine.events import CallPiece, Prefill, TokenLogprob
from engine.process.protocol import Loaded
from engine.request import Prompt, Request
from engine.server.answers import Ask, Ended, Piece, Said, Usage, call_id
from engine.server.bodies import WHOLE, Body, Limit, named, read_body
from engine.server.errors import Refusal, invalid, openai_error
from engine.server.exchange import COMMENT, DONE, EVENTS, Call, Json, event
from engine.server.fields import LENGTHS, SamplingFields, check_gap, sampling_in
from engine.server.forms import Form, FormFields, form_in, grammar_of
from engine.server.logprobs import chat_logprobs, text_logprobs
from engine.server.messages import Content as MessageContent
from engine.server.messages import Messages, conversation_of, text_of
from engine.server.service import Service
from engine.server.thinking import ThinkingFields
from engine.server.tools import ToolFields, call_rules, tools_json


class StreamOptions(Body):
    include_usage: bool = named("include_usage", "include", default=False)


class ChoosingFields(SamplingFields, FormFields):
    """The common fields of both bodies."""

    FORM = "response_format"
    model: str = ""
    response_format: Form | None = None
    n: Annotated[int, Field(ge=1, le=128), WHOLE] = 1  # OpenAI's limit
    stream: bool = False
    stream_options: StreamOptions = StreamOptions()
    usage: StreamOptions = StreamOptions()  # as OpenRouter has it

    @property
    def include_usage(self) -> bool:
        """Whether a stream ends with the usage."""
        wished = self.stream_options.include_usage or self.usage.include_usage
        return self.stream and wished


class Prediction(Body):
    type: Literal["content"] = "content"
    content: MessageContent


class ChatBody(ChoosingFields, ThinkingFields, ToolFields):
    messages: Messages
    max_tokens: Limit = named("max_completion_tokens", *LENGTHS)
    logprobs: bool = False
    top_logprobs: Annotated[int, Field(ge=0, le=20), WHOLE] = 0
    prediction: Prediction | None = None
    continue_final_message: bool | None = None
    add_generation_prompt: bool | None = None
    modalities: list[Literal["text"]] = Field(default_factory=list)

    @property
    def goes_on(self) -> bool:
        """Whether the answer continues the assistant's message where that is the last."""
        given = self.continue_final_message
        return given if given is not None else not self.add_generation_prompt


Token = Annotated[int, Field(ge=0), WHOLE]
Ids = Annotated[list[Token], Field(min_length=1)]


class CompletionBody(ChoosingFields):
    prompt: str | Ids | Annotated[list[str | Ids], Field(min_length=1, max_length=2048)]
    suffix: str | None = None
    max_tokens: Limit = named(*LENGTHS, default=16)  # OpenAI's default
    logprobs: Annotated[
        Annotated[int, Field(ge=0, le=20), WHOLE] | None,
        BeforeValidator(lambda given: None if given is False else given),  # as in a chat
    ] = None
    best_of: Annotated[int, Field(ge=1), WHOLE] | None = None

    @property
    def prompts(self) -> list[Any]:
        """The prompts, as a list even if the client sent one."""
        alone = isinstance(self.prompt, str) or isinstance(self.prompt[0], int)
        return [self.prompt] if alone else [*self.prompt]


def request_of(
    body: ChoosingFields, loaded: Loaded, *, max_tokens: int | None, **more: Any
) -> Request:
    """Make the engine's request. `more`: as for `Request`. Raises Refusal."""
    most = loaded.context_length
    return Request(
        sampling=sampling_in(body, loaded),
        grammar=form_in(body, grammar_of(body.response_format, "response_format")),
        max_tokens=min(max_tokens or most, most),
        stops=tuple(body.stop),
        **more,
    )


def chat_ask(body: ChatBody, loaded: Loaded) -> Ask:
    """Make an `Ask` from the body. Raises Refusal."""
    if body.top_logprobs and not body.logprobs:
        raise invalid("top_logprobs needs logprobs: true.", "top_logprobs")
    functions = body.functions
    rules = call_rules(body.choice, functions, parallel=body.parallel)
    prediction = text_of(body.prediction.content) if body.prediction else ""
    prompt = Prompt(
        messages=conversation_of(body.messages, goes_on=body.goes_on),
        tools=tools_json(functions),
        options=body.variables,
    )
    request = request_of(
        body,
        loaded,
        max_tokens=body.max_tokens,
        calls=rules,
        logprobs=body.top_logprobs if body.logprobs else None,
        prediction=prediction,
        thinking=body.wish,
        thinking_budget=body.budget,
    )
    return Ask(prompt=prompt, request=request, n=body.n, hidden=body.hidden)


def completion_ask(body: CompletionBody, loaded: Loaded) -> Ask:
    """Make an `Ask` from the body. Raises Refusal."""
    if body.best_of is not None and body.best_of != body.n:
        raise invalid("best_of is not supported. Use n.", "best_of")
    first, *more = [_prompt(prompt, body.suffix or "", loaded) for prompt in body.prompts]
    check_gap(body.suffix, loaded)
    request = request_of(body, loaded, max_tokens=body.max_tokens, logprobs=body.logprobs)
    return Ask(prompt=first, more_prompts=tuple(more), request=request, n=body.n)


def _prompt(prompt: str | list[int], suffix: str, loaded: Loaded) -> Prompt:
    if isinstance(prompt, str):
        return Prompt(text=prompt, suffix=suffix)
    if suffix:
        raise invalid("prompt: With a suffix only texts are supported.", "prompt")
    if wrong := next((token for token in prompt if token >= loaded.vocabulary), None):
        raise invalid(f"prompt: {wrong} is not a token id of this model.", "prompt")
    return Prompt(tokens=tuple(prompt))


@dataclass(slots=True)
class _Choice:
    """One answer so far."""

    texts: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: list[Json] = field(default_factory=list)
    scores: list[TokenLogprob] = field(default_factory=list)
    scored: int = 0  # characters of the tokens in the chunks so far
    end: Ended | None = None
    usage: Usage = field(default_factory=Usage)
    reason: str = "stop"

    def take(self, piece: Piece) -> None:
        match piece:
            case Said("reasoning", text):
                self.reasoning.append(text)
            case Said():
                self.texts.append(piece.text)
                self.scores += piece.logprobs
            case CallPiece(_, name, arguments):
                if name:
                    function = {"name": name, "arguments": ""}
                    self.calls.append({"id": call_id(), "type": "function", "function": function})
                self.calls[-1]["function"]["arguments"] += arguments
            case Ended():
                self.end, self.usage, self.reason = piece, piece.usage, piece.reason
                self.scores += piece.logprobs


class _Writer[B: ChoosingFields](ABC):
    """Turns the pieces of all answers into chunks. `whole`: the completion that they build."""

    media: ClassVar[str] = EVENTS
    chunk_kind = "text_completion"

    def __init__(self, head: Json, body: B, answers: int) -> None:
        self.body = body
        self._choices = [_Choice() for _ in range(answers)]
        self._head = head
        usage = {"usage": None} if body.include_usage else {}
        self._chunk_head = head | {"object": self.chunk_kind} | usage

    @staticmethod
    def frame(part: Json | bytes) -> bytes:
        return part if isinstance(part, bytes) else event(part)

    def push(self, piece: Piece, number: int = 0) -> list[Json | bytes]:
        self._choices[number].take(piece)
        if piece is None:
            return [COMMENT]
        if isinstance(piece, Refusal):
            return [openai_error(piece)]
        chunk = self.chunk(number, piece)
        chunks: list[Json | bytes] = [{**self._chunk_head, "choices": [chunk]}] if chunk else []
        if isinstance(piece, Ended) and all(choice.end for choice in self._choices):
            if self.body.include_usage:
                chunks.append({**self._chunk_head, "choices": [], "usage": self._usage})
            chunks.append(DONE)
        return chunks

    @property
    def whole(self) -> Json:
        choices = [self.value(number, choice) for number, choice in enumerate(self._choices)]
        return {**self._head, "choices": choices, "usage": self._usage}

    @property
    def _usage(self) -> Json:
        return usage_json([choice.usage for choice in self._choices], n=self.body.n)

    @abstractmethod
    def chunk(self, number: int, piece: Piece) -> Json | None:
        """Return the choice of a chunk for a piece; None if the piece has none."""

    @abstractmethod
    def value(self, number: int, choice: _Choice) -> Json:
        """Return an answer as a choice of the completion."""


class ChatWriter(_Writer[ChatBody]):
    """Writes chat completions."""

    chunk_kind = "chat.completion.chunk"

    def chunk(self, number: int, piece: Piece) -> Json | None:
        scores = reason = None
        match piece:
            case Prefill():
                delta: Json = {"role": "assistant", "content": ""}
            case Said("reasoning", text):
                delta = {self.body.reasoning_field: text}
            case Said():
                delta, scores = {"content": piece.text}, self._scores(piece.logprobs)
            case CallPiece(index, name, arguments) if name or arguments:
                call: Json = {"index": index, "function": {"arguments": arguments}}
                if name:
                    call["function"] = {"name": name, **call["function"]}
                    call |= {"id": self._choices[number].calls[-1]["id"], "type": "function"}
                delta = {"tool_calls": [call]}  # at most one, or clients join them wrongly
            case Ended():
                delta, reason = {}, piece.reason
                scores = self._scores(piece.logprobs) if piece.logprobs else None
            case _:
                return None
        return {"index": number, "delta": delta, "finish_reason": reason, "logprobs": scores}

    def value(self, number: int, choice: _Choice) -> Json:
        content = "".join(choice.texts)
        message: Json = {"role": "assistant", "content": content, "refusal": None}
        if choice.calls:
            message |= {"content": content or None, "tool_calls": choice.calls}
        if choice.reasoning:
            message[self.body.reasoning_field] = "".join(choice.reasoning)
        return {
            "index": number,
            "message": message,
            "finish_reason": choice.reason,
            "logprobs": self._scores(choice.scores),
        }

    def _scores(self, tokens: Iterable[TokenLogprob]) -> Json | None:
        return {"content": chat_logprobs(tokens), "refusal": None} if self.body.logprobs else None


class TextWriter(_Writer[CompletionBody]):
    """Writes completions of texts."""

    def chunk(self, number: int, piece: Piece) -> Json | None:
        choice = self._choices[number]
        match piece:
            case Said("content", text):
                shown = self._shown(number, text, piece.logprobs, None, choice.scored)
            case Ended(reason):
                shown = self._shown(number, "", piece.logprobs, reason, choice.scored)
            case _:
                return None
        if (scored := shown["logprobs"]) is not None:
            choice.scored += sum(map(len, scored["tokens"]))
        return shown

    def value(self, number: int, choice: _Choice) -> Json:
        return self._shown(number, "".join(choice.texts), choice.scores, choice.reason, 0)

    def _shown(
        self, number: int, text: str, scores: Sequence[TokenLogprob], reason: str | None, begin: int
    ) -> Json:
        wanted = scores and self.body.logprobs is not None
        logprobs = text_logprobs(scores, begin) if wanted else None
        return {"index": number, "text": text, "logprobs": logprobs, "finish_reason": reason}


def usage_json(usages: list[Usage], *, n: int) -> Json:
    """The usage of `n` answers to each prompt. A prompt counts once."""
    stats = [usage.stats for usage in usages]
    prompt = sum(each.prompt_tokens for each in stats[::n])
    completion = sum(each.committed for each in stats)
    cached = sum(each.reused_tokens for each in stats[::n])
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached},
        "completion_tokens_details": {
            "reasoning_tokens": sum(usage.reasoning for usage in usages),
            "accepted_prediction_tokens": sum(usage.prediction_accepted for usage in usages),
            "rejected_prediction_tokens": sum(usage.prediction_rejected for usage in usages),
        },
        "slipstream": {
            "rounds": sum(each.rounds for each in stats),
            "drafted": sum(each.proposed for each in stats),
            "accepted": sum(each.accepted for each in stats),
            "forced": sum(each.forced for each in stats),
            "draft": next((usage.draft for usage in usages if usage.draft), None),
        },
    }


async def chat_completions(service: Service, call: Call) -> Response:
    """POST /chat/completions: answer a chat."""
    body = read_body(ChatBody, call.body)
    head = _head(service, call, "chatcmpl-", "chat.completion")
    writer = ChatWriter(head, body, body.n)
    return await service.reply(call, partial(chat_ask, body), writer, stream=body.stream)


async def completions(service: Service, call: Call) -> Response:
    """POST /completions: continue texts and token ids, or fill gaps in texts."""
    body = read_body(CompletionBody, call.body)
    head = _head(service, call, "cmpl-", "text_completion")
    writer = TextWriter(head, body, len(body.prompts) * body.n)
    return await service.reply(call, partial(completion_ask, body), writer, stream=body.stream)


def _head(service: Service, call: Call, prefix: str, kind: str) -> Json:
    return {
        "id": prefix + call.id.removeprefix("req_"),
        "object": kind,
        "created": int(time.time()),
        "model": service.model,
        "system_fingerprint": service.fingerprint,
    }
