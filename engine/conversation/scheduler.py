"""Several answers side by side: which begins, which has the next turn, which share a pass.

Every answer has a session of its own, with caches, drafter and draft lengths. In a step each answer
that is being written gets one round, and an answer that reads its prompt gets one chunk. Rounds
follow each other, or, where the model allows it, all of them share one pass of the target.

A race is two answers to one prompt, with drafts and without. No other answer runs meanwhile. They
take turns of a part of a second, so that other programs slow both alike.

Sessions that have nothing to do are kept for their caches: the next answer takes the session
whose text its prompt continues furthest, or a copy of it.
"""

import sys
import traceback
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from time import perf_counter

from engine.conversation.session import Answer, Control, Session
from engine.core.batch import read_together
from engine.core.decoder import CHUNK_SECONDS
from engine.core.forks import first_fork
from engine.core.rounds import Company, Pass
from engine.device import finish, wait
from engine.events import Done, Event, Prefill, Stats, Verdict, Waiting
from engine.near_ties import Fork, alike
from engine.request import Prompt, Request

Fail = Callable[[str, Exception], Event]
_SHARED_SECONDS = 0.25  # that a chunk of a prompt takes, on the CPU, while others are answered
# Tokens that another answer has read too, for which caches are copied; half of a shorter prompt.
_WORTH_SHARING = 32
_LEAD_SECONDS = 0.1  # by which one answer of a race gets ahead of the other before it rests


@dataclass(frozen=True, slots=True)
class Job:
    """An answer that is asked for.

    Attributes: `control`, whose clock is not used in a race; `first`, whether it begins before jobs
    that are not; `rival`, the generation of the plain answer in a race, or "".
    """

    generation: str
    prompt: Prompt
    request: Request
    control: Control = field(default_factory=Control)
    first: bool = False
    rival: str = ""


class _Running:
    """An answer that has begun.

    Attributes: `reading`, whether it still reads its prompt; `needs`, the pass that it waits for,
    None if it makes its own; `pass_seconds`, the time that a shared pass took.
    """

    def __init__(
        self, job: Job, answer: Answer, session: Session, company: Company, control: Control
    ) -> None:
        self.job, self.answer, self.session = job, answer, session
        self.reading = True
        self.needs: Pass | None = None
        self.pass_seconds = 0.0
        self._company = company
        self._items = session.begin(answer, control, company=company)

    @property
    def tokens(self) -> int:
        """The most tokens that its caches will hold."""
        return self.answer.most_tokens

    def go_on(self) -> Generator[Event, None, bool]:
        """Its events up to the next pass, or the next part of its prompt. Returns whether there is
        more to come.

        If others take turns, its draft is waited for, so that no other answer's time pays for it.
        Alone it makes its pass at once, and the device goes from one round to the next.
        """
        self.needs, self.pass_seconds = None, 0.0
        for item in self._items:
            if isinstance(item, Pass):
                self.reading = False
                if self._company.in_turns:
                    wait(item.tokens)
                    item.clock.drafted()
                    self.needs = item
                else:
                    item.make(self.session.decoder)
                return True
            yield item
            if isinstance(item, Prefill) and item.reused < item.processed < item.total:
                return True
        return False

    def close(self) -> None:
        self._items.close()


class _Racer(_Running):
    """An answer of a race. Its clock pauses while the other answer has its turn.

    Attributes: `seconds`, how long its rounds have taken; `done`, its last event, which is held
    back until both have ended.
    """

    def __init__(self, job: Job, answer: Answer, session: Session) -> None:
        self.seconds = 0.0
        self.done: Done | None = None
        self._before, self._since = 0.0, 0.0
        self._has_turn = False
        control = replace(job.control, clock=self._clock)
        super().__init__(job, answer, session, Company(), control)

    def turn(self, until: float) -> Iterator[Event]:
        """Its events, up to the round with which its rounds have taken `until` seconds.

        Ends once the device is idle: no pass is paid for by the other answer.
        """
        self._since, self._has_turn = perf_counter(), True
        for item in self._items:
            if isinstance(item, Pass):
                item.make(self.session.decoder)
                continue
            if isinstance(item, Done):
                self.done = item
                break
            yield item
            if isinstance(item, Verdict):
                self.seconds += item.seconds
                if self.seconds >= until:
                    break
        finish()
        self._before, self._has_turn = self._clock(), False

    def _clock(self) -> float:
        return self._before + (perf_counter() - self._since if self._has_turn else 0.0)


class Scheduler:
    """Runs answers that start from `session`, at most `parallel` at once.

    `room`: the most tokens in all caches together. `batching`: whether answers share passes, which
    the model must allow. `fail` makes the event of a failure.

    Attribute: `session`, the one used last; it changes.
    """

    def __init__(
        self, session: Session, *, parallel: int, room: int, batching: bool, fail: Fail
    ) -> None:
        self.session = session
        self._parallel, self._room, self._fail = parallel, room, fail
        self._batching = batching
        self._idle = [session]  # the one used last comes last
        self._waiting: list[tuple[Job, Answer]] = []
        self._running: list[_Running] = []
        self._company = Company()

    @property
    def busy(self) -> bool:
        """Whether an answer is not over."""
        return bool(self._waiting or self._running)

    @property
    def alone(self) -> bool:
        """Whether at most one answer is not over."""
        return len(self._waiting) + len(self._running) <= 1

    def add(self, job: Job) -> Iterator[Event]:
        """Take a job. It fails at once if it cannot be answered."""
        try:
            answer = self.session.prepare(job.prompt, job.request, generation=job.generation)
        except Exception as error:
            yield self._fail(job.generation, error)
            return
        place = sum(1 for other, _ in self._waiting if other.first or not job.first)
        self._waiting.insert(place, (job, answer))
        if self._running or place:
            yield Waiting(job.generation, place)

    def keep(self) -> bool:
        """Write caches of prompts about documents to disk while there is nothing else to do: a part
        of a second's work. Returns whether there may be more to write."""
        return any(session.keep() for session in self._idle)

    def step(self) -> Iterator[Event]:
        """A round of every answer that is being written, and a chunk of one prompt; of a race, one
        turn."""
        yield from self._begin()
        racers = [running for running in self._running if isinstance(running, _Racer)]
        if racers:
            yield from self._race(*racers)
            return
        self._company.in_turns = len(self._running) > 1
        writing = [running for running in self._running if not running.reading]
        reading = [running for running in self._running if running.reading]
        self._company.others = len(writing) - 1 if self._batching and writing else 0
        for running in reading:
            alone = len(self._running) == 1
            running.session.decoder.chunk_seconds = CHUNK_SECONDS if alone else _SHARED_SECONDS
        if self._batching:
            self._read_together(writing)
        for running in (*writing, *reading[:1]):  # one may have a pass under way, which ends first
            yield from self._go_on(running)
        if reading and reading[0] in self._running:  # the next chunk is of another prompt
            self._running.remove(reading[0])
            self._running.append(reading[0])

    def _race(self, plain: _Racer, drafted: _Racer) -> Iterator[Event]:
        """A turn of the answer that has had less time. The last events of both come at the end."""
        writing = [racer for racer in (plain, drafted) if racer.done is None]
        behind = min(writing, key=lambda racer: racer.seconds)
        ahead = max(racer.seconds for racer in writing)
        session = drafted.session
        last: tuple[Event, ...]
        try:
            yield from behind.turn(ahead + _LEAD_SECONDS)
            if plain.done is None or drafted.done is None:
                return
            last = plain.done, replace(drafted.done, fork=_fork(plain, drafted))
        except Exception as error:
            session = session.another()  # its caches may refer to a failed pass
            last = (self._fail(drafted.job.generation, error),)
        plain.close()
        self._running.remove(plain)
        self._end(drafted, session)
        yield from last

    def _go_on(self, running: _Running) -> Iterator[Event]:
        try:
            asked = running.needs
            if asked is not None:
                asked.clock.resume(running.pass_seconds)
                if asked.logits is None:
                    asked.make(running.session.decoder)
            more = yield from running.go_on()
        except Exception as error:
            self._end(running, running.session.another())  # its caches may refer to a failed pass
            yield self._fail(running.job.generation, error)
        else:
            if not more:
                self._end(running, running.session)

    def _read_together(self, writing: Sequence[_Running]) -> None:
        """One pass for all answers that wait for one. If it fails, that is reported, and each
        answer makes its own from now on."""
        waiting = [(running, running.needs) for running in writing if running.needs]
        if len(waiting) < 2:
            return
        began = perf_counter()
        try:
            logits = read_together(
                [running.session.decoder for running, _ in waiting],
                [asked.tokens for _, asked in waiting],
                [asked.tree for _, asked in waiting],
            )
        except Exception as error:
            self._batching = False
            print("A shared pass failed: answers no longer share them.", file=sys.stderr)
            traceback.print_exception(error, file=sys.stderr)
            return
        with suppress(RuntimeError):  # of the device: each answer meets it when it goes on
            wait(*logits)
        seconds, rows = perf_counter() - began, sum(asked.tokens.size for _, asked in waiting)
        for (running, asked), own in zip(waiting, logits, strict=True):
            running.pass_seconds = seconds
            asked.logits, asked.rows, asked.others = own, rows, len(waiting) - 1

    def _begin(self) -> Iterator[Event]:
        """Begin the jobs that wait, as far as there is room."""
        for waiting in [entry for entry in self._waiting if entry[0].control.cancelled()]:
            self._waiting.remove(waiting)
            yield Done(waiting[0].generation, "cancelled", Stats())
        before = [entry[0].generation for entry in self._waiting]
        for waiting in list(self._waiting):
            job, answer = waiting
            held = sum(running.tokens for running in self._running)
            needed = answer.most_tokens * (2 if job.rival else 1)
            crowded = self._running and held + needed > self._room
            if crowded or len(self._running) >= self._parallel:
                break
            if self._running and (job.rival or self._running[0].job.rival):
                break  # a race runs alone
            if self._is_being_read(answer):
                continue
            self._waiting.remove(waiting)
            session = self._session_for(answer, spare=self._room - held - needed)
            if job.rival:
                plain = session.plain()
                rival = plain.prepare(job.prompt, job.request, generation=job.rival)
                self._running += _Racer(job, rival, plain), _Racer(job, answer, session)
            else:
                running = _Running(job, answer, session, self._company, job.control)
                self._running.append(running)
        for place, (job, _) in enumerate(self._waiting):
            if before[place] != job.generation:
                yield Waiting(job.generation, place)

    def _is_being_read(self, answer: Answer) -> bool:
        """Whether a running answer is about to read more of this prompt than any session has read.
        Then it waits: the beginning that two prompts share is read once."""
        sessions = [*self._idle, *(running.session for running in self._running)]
        read = max(session.shared(answer.tokens) for session in sessions)
        reading = [running for running in self._running if running.reading]
        soon = max((alike(running.answer.tokens, answer.tokens) for running in reading), default=0)
        return soon - read >= _WORTH_SHARING

    def _session_for(self, answer: Answer, *, spare: int) -> Session:
        """Return the session that has read most of a prompt, so that this is not read again; if
        none has read much, a new one.

        An idle one is cut to the beginning that it shares with the prompt, if that is half of it or
        more. If it is less, and if the session is running, it is kept, and a copy is cut.
        """

        def read(session: Session) -> int:
            return session.shared(answer.tokens)

        best = max([*self._idle, *(running.session for running in self._running)], key=read)
        shared = read(best)
        if best in self._idle and 2 * shared >= best.length:
            self._idle.remove(best)
            self._make_room(spare)
            return best
        dropped = self._make_room(spare)
        if shared < min(_WORTH_SHARING, len(answer.tokens) / 2):
            return self.session.another()
        return best if best in dropped else best.copy()

    def _make_room(self, spare: int) -> list[Session]:
        """Drop idle sessions, the least recently used first: while there are as many sessions as
        answers at once, and while the idle ones hold more than `spare` tokens. Returns them."""
        dropped = list[Session]()
        while len(self._idle) + len(self._running) >= self._parallel or (
            self._idle and sum(session.length for session in self._idle) > spare
        ):
            dropped.append(self._idle.pop(0))
        return dropped

    def _end(self, running: _Running, session: Session) -> None:
        running.close()
        self._running.remove(running)
        self._idle.append(session)
        self.session = session


def _fork(plain: _Racer, drafted: _Racer) -> Fork | None:
    """Where the drafted answer of a race leaves the plain one, counted from its prompt on."""
    assert drafted.done is not None
    if drafted.done.reason == "cancelled":
        return None
    found = first_fork(plain.session.decoder, plain.session.tokens, drafted.session.tokens)
    return found and replace(found, at=found.at - drafted.done.stats.prompt_tokens)
