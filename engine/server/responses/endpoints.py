"""The endpoint of OpenAI's Responses API."""

from collections.abc import AsyncIterator
from time import time
from uuid import uuid4

from engine.server.answers import Broken, Piece
from engine.server.bodies import read_body
from engine.server.errors import Refusal
from engine.server.exchange import Call, Reply, json_reply
from engine.server.responses.bodies import ResponsesBody
from engine.server.responses.reading import ask_of, echoed, tools_of
from engine.server.responses.writing import ResponseWriter
from engine.server.service import Service
from engine.server.sse import event_reply, named

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
            return event_reply(_frames(writer, _alone(Broken(refusal))))
        raise
    if body.stream:
        return event_reply(_frames(writer, answer))
    async for _, piece in answer:
        if isinstance(piece, Broken):
            raise piece.refusal
        writer.push(piece)
    return json_reply(writer.response)


async def _frames(
    writer: ResponseWriter, answer: AsyncIterator[tuple[int, Piece]]
) -> AsyncIterator[bytes]:
    async for _, piece in answer:
        for event in writer.push(piece):
            yield named(event["type"], event)


async def _alone(piece: Piece) -> AsyncIterator[tuple[int, Piece]]:
    yield 0, piece
