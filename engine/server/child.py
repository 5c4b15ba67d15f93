"""The engine as a child process of the server: started, loaded, and started again when it dies or
hangs.

Knows processes; the link knows their protocol. Without an engine, requests are refused, and answers
that had begun fail.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from uuid import uuid4

from engine.process.client import FOLDER, host_command
from engine.process.protocol import LONGEST_RESPONSE_BYTES, Load
from engine.process.supervision import WORD_SECONDS, Supervisor, grace_seconds, how_it_ended
from engine.server.link import EngineFailed, EngineLink
from engine.server.target import name_of
from models.errors import Problem

_WAITS_SECONDS = (0.2, 1.0, 4.0, 10.0, 30.0)  # before it is started again; the last one repeats
_HANGS_SECONDS = 60.0  # of silence while an answer is due
_TICK_SECONDS = 1.0
_STEADY_SECONDS = 60.0  # an engine that lived so long does not count as one more death


class EngineChild:
    """Keeps an engine running for a link. Attribute: `load`, what each engine is asked for
    first."""

    def __init__(
        self,
        link: EngineLink,
        load: Load,
        *,
        command: Sequence[str] = (),
        waits_seconds: Sequence[float] = _WAITS_SECONDS,
        hangs_seconds: float = _HANGS_SECONDS,
        errors: int | None = None,
        report: Callable[[str], None] = lambda line: None,
    ) -> None:
        """`report` is called with a line for each death. An engine that is silent for
        `hangs_seconds` while an answer is due is killed. `errors`: where its standard error goes,
        as for `subprocess`."""
        self._link = link
        self.load = load
        self._command = tuple(command)
        self._waits_seconds = waits_seconds
        self._errors = errors
        self._hangs_seconds = hangs_seconds
        self._report = report

    async def run(self, loaded: asyncio.Future[None]) -> None:
        """Keep an engine running until cancelled. `loaded` is set when the first engine can answer.

        Raises `Problem` if the first engine cannot load the pair, or has another version.
        """
        loop = asyncio.get_running_loop()
        supervisor = Supervisor(self._waits_seconds, endless=True)
        supervisor.start()
        while True:
            supervisor.begin()
            began = loop.time()
            reason = await self._live(loaded)
            if loop.time() - began >= _STEADY_SECONDS:
                supervisor.forget()
            death = supervisor.end()
            pause = death.pause_seconds if death else None
            assert pause is not None, "it is never given up"
            name = name_of(self.load.target)
            self._report(f"{name}: the engine stopped. {reason} It restarts in {pause:g} s.")
            await asyncio.sleep(pause)
            supervisor.resume()

    async def _live(self, loaded: asyncio.Future[None]) -> str:
        """Start an engine and wait for its end; return a sentence on how it ended."""
        process = await asyncio.create_subprocess_exec(
            *(self._command or host_command(self.load.target)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=self._errors,
            limit=LONGEST_RESPONSE_BYTES,
            cwd=FOLDER,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        # Before the link begins, or it would load the last pair again.
        load = replace(self.load, id=f"{self.load.id}-{uuid4().hex}")
        loading = asyncio.create_task(self._link.load(load))
        talking = asyncio.create_task(self._link.run(process.stdout, process.stdin))
        watching = asyncio.create_task(self._silence())
        try:
            await loading
            if not loaded.done():
                loaded.set_result(None)
            await asyncio.wait((talking, watching), return_when=asyncio.FIRST_COMPLETED)
            if not talking.done():
                talking.cancel()  # answers that are due have failed already
                await asyncio.wait((talking,))
                await _end(process, talking, WORD_SECONDS)
                return f"It did not respond for {self._hangs_seconds:g} s and was killed."
            talking.result()
            status = await process.wait()
            return self._link.own_failure or how_it_ended(status)
        except EngineFailed as error:
            if talking.done() and (wrong := talking.exception()):
                raise wrong from None
            if not loaded.done():
                raise Problem(error.failed.message, error.failed.remedy) from None
            return error.failed.message
        finally:
            watching.cancel()
            await _end(process, talking, grace_seconds(self._link.held_bytes))

    async def _silence(self) -> None:
        """Return once the engine hangs. Counts ticks: no clock that goes on while the machine
        sleeps."""
        heard, silent_seconds = 0, 0.0
        tick = min(_TICK_SECONDS, self._hangs_seconds / 4)
        while silent_seconds < self._hangs_seconds:
            await asyncio.sleep(tick)
            same = self._link.due and self._link.heard == heard
            silent_seconds = silent_seconds + tick if same else 0.0
            heard = self._link.heard


async def _end(
    process: asyncio.subprocess.Process, talking: asyncio.Task[None], seconds: float
) -> None:
    """Close its input, which ends it; kill it if it has not ended after these seconds."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        async with asyncio.timeout(seconds):
            await asyncio.wait((talking,))  # reads its last lines
            await process.wait()
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    talking.cancel()
    await asyncio.gather(talking, return_exceptions=True)
