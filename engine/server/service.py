"""The service that all endpoints share: the pair that a client asks for, and its queue. Knows no
dialect."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, aclosing
from copy import copy
from dataclasses import replace
from importlib.metadata import version
from typing import Any, ClassVar, Protocol

from starlette.responses import Response

from engine.process.protocol import Loaded
from engine.request import Prompt, Thinking
from engine.server.answers import Ask, Piece, Pieces, Said, Usage, Watch, choices, kept_alive
from engine.server.errors import Refusal, crowded, not_loaded, of_failure
from engine.server.exchange import Call, Json, json_reply, stream_reply
from engine.server.link import EngineFailed
from engine.server.pictures import Pictures
from engine.server.pool import Pool
from engine.server.status import Board, RequestStatus

MOST_WAITING = 32


class Writer(Protocol):
    """Writes answers in the form of a dialect, in parts. Attributes: `media`, the type of a
    stream's content; `whole`, the JSON value that all parts build."""

    media: ClassVar[str]

    @property
    def whole(self) -> Json: ...

    def push(self, piece: Piece, number: int = 0) -> Sequence[Any]:
        """Return the parts for a piece of answer `number`."""

    def frame(self, part: Any) -> bytes:
        """Return the bytes of a part in a stream."""


AskOf = Callable[[Loaded], Ask]
"""Makes the request of a dialect's body for the pair that is loaded. Raises Refusal."""


class Service:
    """What endpoints ask of one pair of a pool.

    Attributes: `pool`; `pair`, which the client asked for; `board`; `fingerprint`: if it changes,
    the same seed may give another text.
    """

    def __init__(
        self, pool: Pool, board: Board | None = None, *, most_waiting: int = MOST_WAITING
    ) -> None:
        """`most_waiting`: the longest queue of answers."""
        self.pool, self.pair = pool, pool.pairs[0]
        self._most_waiting = most_waiting
        self.board = board or Board()
        self.fingerprint = f"slipstream-{version('slipstream')}"
        self._pictures = Pictures()

    def asked_for(self, model: str) -> "Service":
        """The same service with the pair that a client calls `model`. Raises Refusal."""
        service = copy(self)
        service.pair = self.pool.named(model)
        return service

    @property
    def loaded(self) -> Loaded:
        """The pair as it is loaded. Raises Refusal while it is not."""
        if self.pair.link.loaded is None:
            raise not_loaded()
        return self.pair.link.loaded

    @property
    def model(self) -> str:
        """The pair's name, for responses. Raises Refusal without a pair."""
        if not self.pair.name:
            raise not_loaded()
        return self.pair.name

    async def reply(
        self,
        call: Call,
        ask_of: AskOf,
        writer: Writer,
        *,
        stream: bool,
        keep_seconds: float | None = None,
    ) -> Response:
        """Answer a call; return the response that `writer` writes, as a stream or whole.

        The pair is loaded first, if need be; then `ask_of` makes the request. Waits for the first
        piece: a request that cannot be answered raises Refusal here, before the first byte. The
        answers are cancelled when the call ends, and the pair stays loaded for `keep_seconds` after
        that, if they are given.
        """
        answers = kept_alive(self._answers(call, ask_of, keep_seconds, self._watch(call)))
        await call.held.enter_async_context(aclosing(answers))
        first = await anext(answers)
        if isinstance(first[1], Refusal):
            raise first[1]
        pieces = await call.held.enter_async_context(aclosing(_with(first, answers)))
        if stream:
            return stream_reply(frames(writer, pieces), writer.media)
        async for number, piece in pieces:
            if isinstance(piece, Refusal):
                raise piece
            writer.push(piece, number)
        return json_reply(writer.whole)

    async def count(self, prompt: Prompt, thinking: Thinking = "") -> int:
        """The number of tokens of a prompt. Raises Refusal."""
        async with self.pool.using(self.pair), AsyncExitStack() as held:
            prompt = await self._shown(prompt, held)
            try:
                return (await self.pair.link.count(prompt, thinking)).tokens
            except EngineFailed as failure:
                raise of_failure(failure.failed) from None

    async def _answers(
        self,
        call: Call,
        ask_of: AskOf,
        keep_seconds: float | None,
        watch: Watch,
    ) -> AsyncGenerator[tuple[int, Piece], None]:
        """Yield the pieces of all answers, once the pair is loaded."""
        try:
            ask = await self._begin(call, ask_of, keep_seconds)
        except Refusal as refusal:
            yield 0, refusal
            return
        async with aclosing(choices(self.pair.link, ask, watch)) as pieces:
            async for answer, piece in pieces:
                hidden = isinstance(piece, Said) and piece.kind == "reasoning" and ask.hidden
                yield answer, None if hidden else piece

    def _watch(self, call: Call) -> Watch:
        """Show a call on the board until it is over. Returns what shows its progress."""
        self.board.show(RequestStatus(call.id, call.path, call.client, model=self.pair.name))
        call.held.callback(self.board.remove, call.id)
        written: dict[int, int] = {}  # tokens, by the answer's number

        def see(answer: int, usage: Usage) -> None:
            written[answer] = usage.stats.committed
            tokens = sum(written.values())
            if prompt := usage.stats.prompt_tokens:
                state = "writing" if tokens else "reading"
                self.board.progress(call.id, state=state, prompt_tokens=prompt, tokens=tokens)

        return see

    async def _begin(
        self,
        call: Call,
        ask_of: AskOf,
        keep_seconds: float | None,
    ) -> Ask:
        """Load the pair; return what to ask it for. Raises Refusal."""
        using = self.pool.using(self.pair, keep_seconds=keep_seconds)
        link = await call.held.enter_async_context(using)
        waiting = max(link.open, self.pair.asked) - self.loaded.parallel
        if waiting >= self._most_waiting:
            raise crowded(waiting)
        call.held.enter_context(self.pair.asking())
        ask = ask_of(self.loaded)
        return replace(ask, prompt=await self._shown(ask.prompt, call.held))

    async def _shown(self, prompt: Prompt, held: AsyncExitStack) -> Prompt:
        return await self._pictures.shown(
            prompt, model=self.model, sees=self.loaded.sees, held=held
        )


async def frames(writer: Writer, answers: Pieces) -> AsyncIterator[bytes]:
    """Yield the frames of a stream, which ends with a failure."""
    async for number, piece in answers:
        for part in writer.push(piece, number):
            yield writer.frame(part)
        if isinstance(piece, Refusal):
            return


async def _with(first: tuple[int, Piece], rest: Pieces) -> AsyncGenerator[tuple[int, Piece], None]:
    yield first
    async for numbered in rest:
        yield numbered
