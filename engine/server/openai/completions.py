"""POST /v1/completions: continues texts and token ids, and fills gaps in texts."""

import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any

from pydantic import Field

from engine.events import TokenLogprob
from engine.request import Prompt
from engine.server import sse
from engine.server.answers import (
    Ask,
    Broken,
    Content,
    Ended,
    Piece,
    Usage,
    Waiting,
)
from engine.server.bodies import WHOLE, Limit, named, read_body
from engine.server.errors import invalid, openai_error
from engine.server.exchange import Call, Reply, json_reply
from engine.server.fields import LENGTHS
from engine.server.fim import gap_of
from engine.server.logprobs import text_logprobs
from engine.server.openai.fields import ChoosingFields, request_of, usage_json
from engine.server.service import Service

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
    choices = [_Choice(body) for _ in range(len(body.prompts) * body.n)]
    answers = await service.answer(call, partial(ask_of, body))
    if body.stream:
        return sse.event_reply(_frames(answers, choices, head, body))
    async for index, piece in answers:
        choices[index].take(piece)
    values = [choice.value(index) for index, choice in enumerate(choices)]
    return json_reply({**head, "choices": values, "usage": _usage(choices, body)})


async def ask_of(body: CompletionBody, service: Service) -> Ask:
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
class _Choice:
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


async def _frames(
    answers: AsyncIterator[tuple[int, Piece]],
    choices: list[_Choice],
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


def _usage(choices: list[_Choice], body: CompletionBody) -> dict[str, Any]:
    return usage_json([choice.end.usage for choice in choices], n=body.n)
