"""OpenAI's API: POST /v1/chat/completions and /v1/completions."""

import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any, Literal, get_args

from pydantic import Field

from engine.events import TokenLogprob
from engine.process.protocol import Loaded
from engine.request import Grammar, Prompt, Request, Role
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
from engine.server.bodies import WHOLE, Body, Limit, named, read_body
from engine.server.choosing import check_choice, tools_json
from engine.server.errors import invalid, openai_error
from engine.server.exchange import Call, Reply, json_reply
from engine.server.fields import LENGTHS, SamplingFields, sampling_in
from engine.server.fim import gap_of
from engine.server.forms import OBJECT, FormFields, form_in, schema_form
from engine.server.logprobs import chat_logprobs, text_logprobs
from engine.server.messages import Content as MessageContent
from engine.server.messages import Messages, conversation_of, text_of
from engine.server.service import Service
from engine.server.thinking import ThinkingFields
from engine.server.tools import ToolFields
from models.errors import Problem


class NamedSchema(Body):
    name: str = ""
    schema_: Annotated[dict[str, Any], Field(alias="schema")]
    strict: bool = False


class TextForm(Body):
    type: Literal["text"]


class ObjectForm(Body):
    """An object. Some servers take its schema here."""

    type: Literal["json_object"]
    schema_: Annotated[dict[str, Any] | None, Field(alias="schema")] = None


class SchemaForm(Body):
    type: Literal["json_schema"]
    json_schema: NamedSchema


ResponseFormat = Annotated[TextForm | ObjectForm | SchemaForm, Field(discriminator="type")]


def grammar_of(form: ResponseFormat | None) -> Grammar | None:
    """The grammar of the answer; None for free text. Raises Refusal."""
    match form:
        case SchemaForm(json_schema=named):
            param = "response_format.json_schema.schema"
            return schema_form(named.schema_, param, strict=named.strict)
        case ObjectForm():
            schema = OBJECT if form.schema_ is None else form.schema_
            return schema_form(schema, "response_format.schema", strict=False)
        case _:
            return None


MOST_CHOICES = 8


class StreamOptions(Body):
    include_usage: bool = named("include_usage", "include", default=False)


class ChoosingFields(SamplingFields, FormFields):
    """The common fields of both bodies."""

    FORM = "response_format"
    model: str = ""
    response_format: ResponseFormat | None = None
    n: Annotated[int, Field(ge=1, le=MOST_CHOICES), WHOLE] = 1
    stream: bool = False
    stream_options: StreamOptions = StreamOptions()
    usage: StreamOptions = StreamOptions()  # as OpenRouter has it

    @property
    def include_usage(self) -> bool:
        """Whether a stream ends with the usage."""
        wished = self.stream_options.include_usage or self.usage.include_usage
        return self.stream and wished


def request_of(
    body: ChoosingFields,
    loaded: Loaded,
    *,
    max_tokens: int | None,
    **more: Any,
) -> Request:
    """Make the engine's request. `more`: as for `Request`. Raises Refusal."""
    most = loaded.context_length
    try:
        return Request(
            sampling=sampling_in(body, loaded),
            grammar=form_in(body, grammar_of(body.response_format)),
            max_tokens=most if max_tokens is None else min(max_tokens, most),
            stops=tuple(body.stop),
            **more,
        )
    except Problem as problem:
        raise invalid(str(problem)) from None


def usage_json(usages: list[Usage], *, n: int) -> dict[str, Any]:
    """The usage of `n` answers to each prompt. A prompt counts once."""
    first = usages[::n]
    prompt = sum(usage.prompt for usage in first)
    completion = sum(usage.completion for usage in usages)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": sum(usage.cached for usage in first)},
        "completion_tokens_details": {
            "reasoning_tokens": sum(usage.reasoning for usage in usages),
            "accepted_prediction_tokens": sum(usage.prediction_accepted for usage in usages),
            "rejected_prediction_tokens": sum(usage.prediction_rejected for usage in usages),
        },
        "slipstream": {
            "rounds": sum(usage.rounds for usage in usages),
            "drafted": sum(usage.drafted for usage in usages),
            "accepted": sum(usage.accepted for usage in usages),
            "forced": sum(usage.forced for usage in usages),
            "draft": next((usage.draft for usage in usages if usage.draft), None),
        },
    }


_ROLES = (*get_args(Role), "developer", "function")


class Prediction(Body):
    type: Literal["content"] = "content"
    content: MessageContent


class ChatBody(ChoosingFields, ThinkingFields, ToolFields):
    messages: Messages
    max_tokens: Limit = named("max_completion_tokens", *LENGTHS)
    logprobs: bool = False
    top_logprobs: Annotated[int, Field(ge=0, le=20), WHOLE] = 0
    parallel_tool_calls: bool = True
    prediction: Prediction | None = None
    continue_final_message: bool | None = None
    add_generation_prompt: bool | None = None
    modalities: list[Literal["text"]] = Field(default_factory=list)

    @property
    def goes_on(self) -> bool:
        """Whether the answer continues the assistant's message where that is the last."""
        given = self.continue_final_message
        return given if given is not None else not self.add_generation_prompt


async def chat_completions(service: Service, call: Call) -> Reply:
    """Answer a chat."""
    body = read_body(ChatBody, call.body)
    head = {
        "id": "chatcmpl-" + call.id.removeprefix("req_"),
        "created": int(time.time()),
        "model": service.model,
        "system_fingerprint": service.fingerprint,
    }
    answers = await service.answer(call, partial(chat_ask, body))
    if body.stream:
        return sse.event_reply(_chat_frames(answers, head, body))
    return json_reply(await _whole(answers, head, body))


def chat_ask(body: ChatBody, service: Service) -> Ask:
    """Make an `Ask` from the body. Raises Refusal."""
    if body.top_logprobs and not body.logprobs:
        raise invalid("top_logprobs needs logprobs: true.", "top_logprobs")
    check_choice(body.choice, [function["name"] for function in body.callable_functions])
    prediction = text_of(body.prediction.content) if body.prediction else ""
    prompt = Prompt(
        messages=conversation_of(body.messages, _ROLES, goes_on=body.goes_on),
        tools=tools_json(body.callable_functions),
        options=body.variables,
    )
    request = request_of(
        body,
        service.loaded,
        max_tokens=body.max_tokens,
        logprobs=body.top_logprobs if body.logprobs else None,
        prediction=prediction,
        thinking=body.wish,
        thinking_budget=body.budget,
    )
    return Ask(
        prompt=prompt,
        request=request,
        n=body.n,
        choice=body.choice,
        parallel=body.parallel_tool_calls,
        hidden=body.hidden,
    )


@dataclass
class _Message:
    """One answer so far."""

    content: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)
    scores: list[TokenLogprob] = field(default_factory=list)
    end: Ended = field(default_factory=lambda: Ended("stop", "", Usage()))

    def take(self, piece: Piece) -> None:
        match piece:
            case Content():
                self.content.append(piece.text)
                self.scores += piece.logprobs
            case Reasoning():
                self.reasoning.append(piece.text)
            case CallBegan():
                function = {"name": piece.name, "arguments": ""}
                self.calls.append({"id": piece.id, "type": "function", "function": function})
            case CallArguments():
                self.calls[piece.index]["function"]["arguments"] += piece.text
            case Ended():
                self.end = piece
            case Broken():
                raise piece.refusal

    def value(self, index: int, *, logprobs: bool) -> dict[str, Any]:
        content = "".join(self.content)
        message: dict[str, Any] = {"role": "assistant", "content": content, "refusal": None}
        if self.calls:
            message |= {"content": content or None, "tool_calls": self.calls}
        if self.reasoning:
            message |= _reasoning("".join(self.reasoning))
        scores = {"content": chat_logprobs(self.scores), "refusal": None} if logprobs else None
        return {
            "index": index,
            "message": message,
            "finish_reason": self.end.reason,
            "logprobs": scores,
        }


async def _whole(answers: Pieces, head: dict[str, Any], body: ChatBody) -> dict[str, Any]:
    choices = [_Message() for _ in range(body.n)]
    async for index, piece in answers:
        choices[index].take(piece)
    return {
        **head,
        "object": "chat.completion",
        "choices": [
            choice.value(index, logprobs=body.logprobs) for index, choice in enumerate(choices)
        ],
        "usage": usage_json([choice.end.usage for choice in choices], n=body.n),
    }


async def _chat_frames(
    answers: Pieces, head: dict[str, Any], body: ChatBody
) -> AsyncIterator[bytes]:
    head = {**head, "object": "chat.completion.chunk"}
    if body.include_usage:
        head["usage"] = None
    usages = [Usage()] * body.n
    async for index, piece in answers:
        match piece:
            case Waiting():
                yield sse.COMMENT
            case Broken():
                yield sse.data(openai_error(piece.refusal))
                return
            case Ended():
                usages[index] = piece.usage
                yield sse.data({**head, "choices": [_chunk(index, {}, piece.reason)]})
            case _:
                if delta := _delta(piece):
                    chunk = _chunk(index, delta)
                    if isinstance(piece, Content) and body.logprobs:
                        scores = {"content": chat_logprobs(piece.logprobs), "refusal": None}
                        chunk["logprobs"] = scores
                    yield sse.data({**head, "choices": [chunk]})
    if body.include_usage:
        yield sse.data({**head, "choices": [], "usage": usage_json(usages, n=body.n)})
    yield sse.DONE


def _chunk(index: int, delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
    return {"index": index, "delta": delta, "finish_reason": reason, "logprobs": None}


def _delta(piece: Piece) -> dict[str, Any]:
    """The delta of a piece, with at most one call."""
    match piece:
        case Began():
            return {"role": "assistant", "content": ""}
        case Content():
            return {"content": piece.text}
        case Reasoning():
            return _reasoning(piece.text)
        case CallBegan():
            function = {"name": piece.name, "arguments": ""}
            call = {"index": piece.index, "id": piece.id, "type": "function", "function": function}
            return {"tool_calls": [call]}
        case CallArguments():
            call = {"index": piece.index, "function": {"arguments": piece.text}}
            return {"tool_calls": [call]}
        case _:
            return {}


def _reasoning(text: str) -> dict[str, Any]:
    return {"reasoning_content": text, "reasoning": text}  # clients read the one or the other


MOST_PROMPTS = 128
_MAX_TOKENS = 16  # OpenAI's default

Token = Annotated[int, Field(ge=0), WHOLE]
Ids = Annotated[list[Token], Field(min_length=1)]


class CompletionBody(ChoosingFields):
    prompt: str | Ids | Annotated[list[str | Ids], Field(min_length=1, max_length=MOST_PROMPTS)]
    suffix: str | None = None
    max_tokens: Limit = named(*LENGTHS, default=_MAX_TOKENS)
    logprobs: Annotated[int, Field(ge=0, le=20), WHOLE] | None = None
    best_of: Annotated[int, Field(ge=1), WHOLE] | None = None

    @property
    def prompts(self) -> list[str | list[int]]:
        """The prompts, as a list even if the client sent one."""
        if isinstance(self.prompt, str):
            return [self.prompt]
        if isinstance(self.prompt[0], int):
            return [self.prompt]
        return self.prompt


async def completions(service: Service, call: Call) -> Reply:
    """Continue texts."""
    body = read_body(CompletionBody, call.body)
    head = {
        "id": "cmpl-" + call.id.removeprefix("req_"),
        "object": "text_completion",
        "created": int(time.time()),
        "model": service.model,
        "system_fingerprint": service.fingerprint,
    }
    choices = [_Continuation(body) for _ in range(len(body.prompts) * body.n)]
    answers = await service.answer(call, partial(completion_ask, body))
    if body.stream:
        return sse.event_reply(_text_frames(answers, choices, head, body))
    async for index, piece in answers:
        choices[index].take(piece)
    values = [choice.value(index) for index, choice in enumerate(choices)]
    return json_reply({**head, "choices": values, "usage": _usage(choices, body)})


async def completion_ask(body: CompletionBody, service: Service) -> Ask:
    """Make an `Ask` from the body. Raises Refusal."""
    if body.best_of is not None and body.best_of != body.n:
        raise invalid("best_of is not supported: only n answers are written.", "best_of")
    stops = body.stop
    prompts = [_prompt(prompt, service) for prompt in body.prompts]
    if body.suffix:
        prompts, ends = await _gaps(body, service)
        stops = [*stops, *ends]
    request = request_of(
        body,
        service.loaded,
        max_tokens=body.max_tokens,
        logprobs=body.logprobs,
        special=bool(body.suffix),  # so that tokens that end a gap are seen as text
    )
    request = replace(request, stops=tuple(stops))
    return Ask(prompt=prompts[0], more_prompts=tuple(prompts[1:]), request=request, n=body.n)


def _prompt(prompt: str | list[int], service: Service) -> Prompt:
    if isinstance(prompt, str):
        return Prompt(text=prompt)
    vocabulary = service.loaded.vocabulary
    if wrong := next((token for token in prompt if token >= vocabulary), None):
        raise invalid(f"prompt: {wrong} is no token of this model.", "prompt")
    return Prompt(tokens=tuple(prompt))


async def _gaps(body: CompletionBody, service: Service) -> tuple[list[Prompt], tuple[str, ...]]:
    texts = [prompt for prompt in body.prompts if isinstance(prompt, str)]
    if len(texts) < len(body.prompts):
        raise invalid("With a suffix the prompt is a text.", "prompt")
    marks = await service.marks()
    gaps = [gap_of(text, body.suffix or "", marks) for text in texts]
    known = [gap for gap in gaps if gap is not None]
    if not known:
        raise invalid(f"{service.model} has no tokens for gaps.", "suffix")
    return [Prompt(text=gap.prompt) for gap in known], known[0].stops


@dataclass
class _Continuation:
    """One answer so far."""

    body: CompletionBody
    texts: list[str] = field(default_factory=list)
    scores: list[TokenLogprob] = field(default_factory=list)
    end: Ended = field(default_factory=lambda: Ended("stop", "", Usage()))

    def take(self, piece: Piece) -> None:
        match piece:
            case Content():
                self.texts.append(piece.text)
                self.scores += piece.logprobs
            case Ended():
                self.end = piece
                if not piece.stop_string:
                    self.scores += piece.logprobs
            case Broken():
                raise piece.refusal

    def value(self, index: int) -> dict[str, Any]:
        logprobs = text_logprobs(self.scores) if self.body.logprobs is not None else None
        return {
            "index": index,
            "text": "".join(self.texts),
            "logprobs": logprobs,
            "finish_reason": self.end.reason,
        }

    def chunks(self, index: int, piece: Piece) -> Iterator[dict[str, Any]]:
        """Yield the choices of the chunks for a piece."""
        self.take(piece)
        match piece:
            case Content():
                yield self._chunk(index, piece.text, list(piece.logprobs))
            case Ended():
                yield {**self._chunk(index, "", []), "finish_reason": piece.reason}

    def _chunk(self, index: int, text: str, scores: list[TokenLogprob]) -> dict[str, Any]:
        shown = text_logprobs(scores) if scores and self.body.logprobs is not None else None
        return {"index": index, "text": text, "logprobs": shown, "finish_reason": None}


async def _text_frames(
    answers: Pieces,
    choices: list[_Continuation],
    head: dict[str, Any],
    body: CompletionBody,
) -> AsyncIterator[bytes]:
    if body.include_usage:
        head = {**head, "usage": None}
    async for index, piece in answers:
        if isinstance(piece, Waiting):
            yield sse.COMMENT
        elif isinstance(piece, Broken):
            yield sse.data(openai_error(piece.refusal))
            return
        else:
            for chunk in choices[index].chunks(index, piece):
                yield sse.data({**head, "choices": [chunk]})
    if body.include_usage:
        yield sse.data({**head, "choices": [], "usage": _usage(choices, body)})
    yield sse.DONE


def _usage(choices: list[_Continuation], body: CompletionBody) -> dict[str, Any]:
    return usage_json([choice.end.usage for choice in choices], n=body.n)
