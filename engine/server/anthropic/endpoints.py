"""The endpoints of Anthropic's API."""

from collections.abc import AsyncIterator
from uuid import uuid4

from engine.server.answers import Broken, Piece
from engine.server.anthropic.bodies import CountTokensBody, MessagesBody
from engine.server.anthropic.reading import ask_of, prompt_of, thinking_in
from engine.server.anthropic.writing import MessageWriter
from engine.server.bodies import read_body
from engine.server.exchange import Call, Reply, json_reply
from engine.server.service import Service
from engine.server.sse import event_reply, named


async def messages(service: Service, call: Call) -> Reply:
    """POST /messages: write the next message of a conversation."""
    body = read_body(MessagesBody, call.body)
    writer = MessageWriter(
        id=f"msg_{uuid4().hex}",
        model=service.model,
        request_id=call.id,
        max_tokens=body.max_tokens,
        omit_thinking=body.thinking is not None and body.thinking.display == "omitted",
    )
    answer = await service.answer(call, lambda pair: ask_of(body, pair.loaded))
    if body.stream:
        return event_reply(_frames(writer, answer))
    async for _, piece in answer:
        if isinstance(piece, Broken):
            raise piece.refusal
        writer.push(piece)
    return json_reply(writer.message)


async def count_tokens(service: Service, call: Call) -> Reply:
    """POST /messages/count_tokens: count the tokens of a prompt."""
    body = read_body(CountTokensBody, call.body)
    return json_reply({"input_tokens": await service.count(prompt_of(body), thinking_in(body))})


async def _frames(
    writer: MessageWriter, answer: AsyncIterator[tuple[int, Piece]]
) -> AsyncIterator[bytes]:
    async for _, piece in answer:
        for event in writer.push(piece):
            yield named(event["type"], event)
