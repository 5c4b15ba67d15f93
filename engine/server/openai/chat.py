"""POST /v1/chat/completions."""

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, Literal, get_args

from pydantic import Field

from engine.events import TokenLogprob
from engine.request import Prompt, Role
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
    Reasoning,
    Usage,
    Waiting,
)
from engine.server.bodies import WHOLE, Body, Limit, named, read_body
from engine.server.choosing import check_choice, tools_json
from engine.server.errors import invalid, openai_error
from engine.server.exchange import Call, Reply, json_reply
from engine.server.fields import LENGTHS
from engine.server.logprobs import chat_logprobs
from engine.server.messages import Content as MessageContent
from engine.server.messages import Messages, conversation_of, text_of
from engine.server.openai.fields import ChoosingFields, request_of, usage_json
from engine.server.service import Service
from engine.server.thinking import ThinkingFields
from engine.server.tools import ToolFields

_ROLES = (*get_args(Role), "developer", "function")
Pieces = AsyncIterator[tuple[int, Piece]]


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
    answers = await service.answer(call, partial(ask_of, body))
    if body.stream:
        return sse.event_reply(_frames(answers, head, body))
    return json_reply(await _whole(answers, head, body))


def ask_of(body: ChatBody, service: Service) -> Ask:
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
class _Choice:
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
    choices = [_Choice() for _ in range(body.n)]
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


async def _frames(answers: Pieces, head: dict[str, Any], body: ChatBody) -> AsyncIterator[bytes]:
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
