"""The endpoints of Ollama's API that answer."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from engine.server.answers import Ask, Broken, Piece
from engine.server.bodies import names_of, read_body
from engine.server.errors import Refusal, invalid
from engine.server.exchange import Call, Reply, json_reply
from engine.server.fim import Gap, gap_of
from engine.server.ollama.bodies import AnswerFields, GenerateBody, OllamaChatBody, Options
from engine.server.ollama.reading import chat_ask, generate_ask
from engine.server.ollama.writing import ReplyWriter
from engine.server.pool import keep_seconds
from engine.server.service import Service
from engine.server.sse import line, line_reply
from models.errors import Problem


async def chat(service: Service, call: Call) -> Reply:
    """POST /api/chat: write the next message of a chat."""
    body = read_fields(OllamaChatBody, call.body)
    writer = _writer(service, body, chat=True)
    if not body.messages:
        return await _kept(service, body, writer)
    return await _answered(service, call, body, writer, lambda pair: chat_ask(body, pair.loaded))


async def generate(service: Service, call: Call) -> Reply:
    """POST /api/generate: answer a prompt, or continue a text."""
    body = read_fields(GenerateBody, call.body)
    writer = _writer(service, body, chat=False)
    if not body.prompt and not body.suffix and not body.images:
        return await _kept(service, body, writer)

    async def ask_of(pair: Service) -> Ask:
        return generate_ask(body, pair.loaded, await _gap(body, pair) if body.suffix else None)

    return await _answered(service, call, body, writer, ask_of)


def _writer(service: Service, body: AnswerFields, *, chat: bool) -> ReplyWriter:
    context = body.options.num_ctx or 0
    return ReplyWriter(service.model, chat=chat, logprobs=body.logprobs, context=context)


def read_fields[B: AnswerFields](kind: type[B], given: Any) -> B:
    """Read a body. Some clients send options beside `options`, or other fields among them."""
    if isinstance(given, dict) and isinstance(options := given.get("options") or {}, dict):
        given, inner = {**given, **options}, names_of(Options) - names_of(kind)
        options = {name: given.pop(name) for name in given.keys() & inner}
        given["options"] = options
    return read_body(kind, given)


async def _gap(body: GenerateBody, service: Service) -> Gap:
    gap = gap_of(body.prompt, body.suffix, await service.marks())
    if gap is None:
        raise invalid(f"{service.model} has no tokens for gaps.", "suffix")
    return gap


async def _kept(service: Service, body: AnswerFields, writer: ReplyWriter) -> Reply:
    """Load the model, or let it go: a request without a prompt asks for that."""
    keep_seconds = _keep_seconds(body)
    if keep_seconds == 0:
        service.pair.keep_seconds = 0.0
        return json_reply(writer.nothing("unload"))
    async with service.pool.using(service.pair, keep_seconds=keep_seconds):
        return json_reply(writer.nothing("load"))


async def _answered(
    service: Service,
    call: Call,
    body: AnswerFields,
    writer: ReplyWriter,
    ask_of: Callable[[Service], Ask | Awaitable[Ask]],
) -> Reply:
    try:
        answer = await service.answer(call, ask_of, keep_seconds=_keep_seconds(body))
    except Refusal as refusal:
        raise writer.refused(refusal) from None
    if body.stream:
        return line_reply(_lines(writer, answer))
    parts = []
    async for _, piece in answer:
        if isinstance(piece, Broken):
            raise writer.refused(piece.refusal)
        parts += writer.push(piece)
    return json_reply(writer.joined(parts))


def _keep_seconds(body: AnswerFields) -> float | None:
    """The time that the model stays loaded, if the client says so."""
    given = body.keep_alive
    if given is None:
        return None
    try:
        return keep_seconds(given if isinstance(given, str) else f"{given:f}")
    except Problem as problem:
        raise invalid(str(problem), "keep_alive") from None


async def _lines(
    writer: ReplyWriter, answer: AsyncIterator[tuple[int, Piece]]
) -> AsyncIterator[bytes]:
    async for _, piece in answer:
        for part in writer.push(piece):
            yield line(part)
