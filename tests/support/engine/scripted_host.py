"""An engine that plays what it is told: protocol 8 over a pair of streams, without a model.

Beside the tests in their own event loop, `scripted(play)`; or as a process of its own, which plays
what the prompt says: the last message, or the text, is JSON such as

    {"say": ["Hel", "lo"], "delay": 0.01, "then": "stop"}

`then` is how it ends: "stop", "length", a cause of `Failed`, "hang", "die", "lose" one of several
Macs, or "stop and lose" it. Anything else is answered with "You said: ", word by word.
"""

import asyncio
import json
import os
import socket
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import get_args

from engine import events
from engine.cluster.states import RankState
from engine.conversation.gaps import gap_form, with_gap
from engine.conversation.text import AnswerText
from engine.events import (
    Done,
    Draft,
    DraftedToken,
    Event,
    Failed,
    Prefill,
    Span,
    Stats,
    Text,
    TokenLogprob,
    TokenVerdict,
    TopToken,
    Verdict,
    WrittenToken,
)
from engine.exactness import ANY_ROWS, Exactness
from engine.process import protocol
from engine.process.protocol import (
    LONGEST_RESPONSE_BYTES,
    Cancel,
    Count,
    Generate,
    Keep,
    Load,
    Loaded,
    Quit,
    SetDrafter,
    Unload,
)
from engine.replies.grammars import grammar_of_reply
from engine.replies.reading import ReplyReader
from engine.replies.syntax import ReplySyntax, syntax_of
from engine.replies.tools import tools_of
from engine.request import CallRules, Sampling
from engine.server.link import EngineLink
from models.errors import Problem
from tests.support.children import children_with

Step = Event | protocol.Ranks | float
"""What a script does next: an event, or a wait in seconds."""
Script = Callable[[Generate], Iterator[Step]]


class Die(Exception):
    """Raised by a script: the engine ends at once."""


LOADED = Loaded(
    *("load", "/models/tiny", "auto", "auto", "float32", 4096, 260, ""),
    protocol.Memory(),
    Sampling(),
    parallel=4,
    exact=Exactness(ANY_ROWS),
    macs=protocol.Macs(),
    thinking=(),
    held_bytes=0,
    **dict.fromkeys(("reasons", "fills_gaps", "sees"), False),
)
RANKS = RankState(0, "127.0.0.1", "ready"), RankState(1, "mini.local", "ready")
LOST = "mini.local was lost: its connection ended.", "Switch it on."


def script(*texts, id, delay=0.0, then="stop", cut="", request=None, prompt_tokens=5, reused=0):
    """An answer of these texts, a round and two tokens each: a drafted one, and the target's own,
    which has the text's last character."""
    yield Prefill(id, prompt_tokens, prompt_tokens, reused, 0.001)
    for round, text in enumerate(texts):
        if delay:
            yield delay
        first, last = text[:-1], text[-1:]
        yield Draft(id, round, (DraftedToken(1, first, 0.5),), "lookup")
        scores = ()
        if request is not None and request.logprobs is not None:
            scores = tuple(_score(part, request.logprobs) for part in (first, last))
        own = WrittenToken(2, last, 0.5, "bonus")
        yield Verdict(
            id, round, 1, (TokenVerdict(0.5, 1.0),), own, 0.0, 0.0, 0.0, "", logprobs=scores
        )
        spans = (Span(round, 0, len(first)), Span(round, 1, len(last)))
        yield Text(id, text, spans)
    stats = Stats(**dict.fromkeys(("rounds", "proposed", "accepted", "bonuses"), len(texts)))
    if then == "lose":
        yield protocol.Ranks(RANKS)
        yield Failed(id, *LOST)
        yield Failed("", *LOST)
    if then == "stop and lose":
        yield Done(id, "stop", stats, cut)
        yield Failed("", *LOST)
    if then in ("die", "lose", "stop and lose"):
        raise Die
    if then == "hang":
        yield 3600.0
    elif then in get_args(events.Cause):
        yield Failed(id, "It does not work.", "Do otherwise.", then, 5000, 4096)
    else:
        yield Done(id, then, stats, cut)


def saying(*texts, **how):
    """What always plays an answer of these texts."""

    def play(command):
        return script(*texts, id=command.id, request=command.request, **how)

    return play


def told(command):
    """What the prompt says."""
    prompt = command.prompt
    said = prompt.messages[-1].content if prompt.messages else prompt.text
    try:
        plan = json.loads(said)
        texts, delay, then = plan["say"], plan.get("delay", 0.0), plan.get("then", "stop")
    except (ValueError, TypeError, KeyError, AttributeError):
        texts, delay, then = ["You said: ", *(word + " " for word in said.split())], 0.0, "stop"
    return script(*texts, id=command.id, delay=delay, then=then, request=command.request)


class _Texts:
    """A tokenizer whose tokens are the texts of a script, by their numbers."""

    def __init__(self):
        self._texts = []

    def tokens(self, text):
        """Return the tokens of a text, one for each of its spans."""
        ends = [*accumulate((span.length for span in text.spans), initial=0)]
        self._texts += [text.delta[begin:end] for begin, end in pairwise(ends)]
        return [*range(len(self._texts) - len(text.spans), len(self._texts))]

    def decode(self, token_ids, skip_special_tokens=True, **_):
        return "".join(self._texts[number] for number in token_ids)


@dataclass(frozen=True)
class Files:
    """The files of a model, as far as its answers depend on them."""

    syntax: ReplySyntax
    names: frozenset[str]

    @classmethod
    def of(cls, target):
        """Those in a folder; a missing file counts as empty."""
        template = tokens = ""
        with suppress(OSError):
            template = (Path(target) / "chat_template.jinja").read_text(encoding="utf-8")
        with suppress(OSError):
            tokens = (Path(target) / "tokenizer.json").read_text()
        added = json.loads(tokens or "{}").get("added_tokens", ())
        names = frozenset(token["content"] for token in added)
        return cls(syntax_of(template, tokens=names, special=names), names)

    def asked(self, command):
        """A command as an engine does it: its gap filled, with the grammar of its calls."""
        prompt, request = with_gap(command.prompt, command.request, self.names.__contains__)
        if prompt.messages:
            grammar = grammar_of_reply(
                *(self.syntax, prompt.tools, request.calls),
                prompt_ending="",
                form=request.grammar,
            )
            request = replace(request, grammar=grammar, calls=CallRules())
        return replace(command, prompt=prompt, request=request)


def read(steps, command, syntax):
    """The script of an answer, its texts read and stopped as a session does."""
    tools, texts, spans = tools_of(command.prompt.tools), _Texts(), deque[Span]()
    if not command.prompt.messages or not (syntax.reasons or tools):
        yield from steps
        return
    certain = command.request.grammar is not None
    answer = None
    for step in steps:
        if not isinstance(step, Text | Done):
            yield step
            continue
        if answer is None:
            reader = ReplyReader(syntax, tools=tools, certain=certain, prompt_ending="")
            answer = AnswerText(texts, command.request.stops, reader=reader)
        found = []
        if isinstance(step, Text):
            spans.extend(step.spans)
            found.append(answer.push(texts.tokens(step)))
        if isinstance(step, Done) or answer.stopped:
            found.append(answer.finish())
        for delta, lengths, stretches in found:
            own = tuple(replace(spans.popleft(), length=length) for length in lengths)
            calls = answer.calls()
            if own or calls:
                yield Text(command.id, delta, own, stretches, calls)
        if answer.stopped:
            yield Done(command.id, "stop", Stats(), answer.cut)
            return
        if isinstance(step, Done):
            yield step


@dataclass
class ScriptedHost:
    """Plays a script for each Generate, side by side. `taken` are the commands so far."""

    play: Script = told
    loaded: Loaded = LOADED
    taken: list[protocol.Command] = field(default_factory=list)
    running: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    async def serve(self, reader, writer):
        """Answer commands until the stream ends, `quit`, or a script dies."""
        send(writer, protocol.Ready(protocol.PROTOCOL, "3", "0", "0", "none"))
        dead = asyncio.Event()
        dying = asyncio.create_task(dead.wait())
        try:
            while True:
                reading = asyncio.ensure_future(_line(reader))
                await asyncio.wait((reading, dying), return_when=asyncio.FIRST_COMPLETED)
                if dying.done() or not (line := await reading):
                    reading.cancel()
                    return
                command = protocol.parse_command(line)
                if isinstance(command, Generate):
                    try:
                        command = Files.of(self.loaded.target).asked(command)
                    except Problem as problem:
                        send(writer, Failed(command.id, problem.message, problem.remedy, "request"))
                        continue
                self.taken.append(command)
                if isinstance(command, Quit):
                    return
                self._do(command, writer, dead)
        finally:
            for task in (dying, *self.running.values()):
                task.cancel()
            await asyncio.gather(dying, *self.running.values(), return_exceptions=True)
            writer.close()

    def _do(self, command, writer, dead):
        match command:
            case Load() if not Path(command.target).is_absolute():
                send(writer, Failed(command.id, "The model was not found.", "Choose another."))
            case Load():
                if command.macs.hosts:
                    send(writer, protocol.Ranks(RANKS))
                files = Files.of(command.target)
                self.loaded = replace(
                    self.loaded,
                    reasons=files.syntax.reasons,
                    fills_gaps=gap_form(files.names.__contains__) is not None,
                    id=command.id,
                    target=command.target,
                    drafter=command.drafter,
                    parallel=command.parallel,
                    macs=command.macs,
                )
                send(writer, self.loaded)
            case SetDrafter():
                drafter, length = command.drafter, command.draft_length
                self.loaded = replace(
                    self.loaded,
                    id=command.id,
                    drafter=drafter or self.loaded.drafter,
                    draft_length=length or self.loaded.draft_length,
                )
                send(writer, self.loaded)
            case Unload():
                send(writer, protocol.Unloaded(command.id))
            case Keep():
                send(writer, protocol.Kept(command.id, ()))
            case Count():
                send(writer, protocol.Counted(command.id, _tokens(command.prompt)))
            case Cancel():
                if task := self.running.get(command.id):
                    task.cancel()
            case Generate():
                task = asyncio.create_task(self._generate(command, writer, dead))
                self.running[command.id] = task
                task.add_done_callback(lambda _: self.running.pop(command.id, None))

    async def _generate(self, command, writer, dead):
        syntax = Files.of(self.loaded.target).syntax
        try:
            for step in read(self.play(command), command, syntax):
                if isinstance(step, float):
                    await asyncio.sleep(step)
                else:
                    send(writer, step)
                    await asyncio.sleep(0)
        except asyncio.CancelledError:
            send(writer, Done(command.id, "cancelled", Stats()))
        except Die:
            dead.set()


@asynccontextmanager
async def joined(link, host):
    """While the block runs, a link leads to this engine, in this event loop."""
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=ours, limit=LONGEST_RESPONSE_BYTES)
    far = await asyncio.open_connection(sock=theirs, limit=LONGEST_RESPONSE_BYTES)
    tasks = [asyncio.create_task(host.serve(*far)), asyncio.create_task(link.run(reader, writer))]
    await asyncio.sleep(0)
    try:
        yield
    finally:
        writer.close()
        await asyncio.gather(*tasks)


@asynccontextmanager
async def scripted(play=told, *, target=LOADED.target, sees=False, **defaults):
    """A link to a scripted engine in this event loop, and the engine. Without a `target` nothing is
    loaded. `defaults`: of the link."""
    host, link = ScriptedHost(play, replace(LOADED, sees=sees)), EngineLink(**defaults)
    async with joined(link, host):
        if target:
            await link.load(Load("load", target))
        yield link, host


def send(writer, response):
    writer.write(protocol.RESPONSES.to_line(response))


def command(*arguments):
    """The command that starts one as a process."""
    return (sys.executable, "-m", __name__, *arguments)


def newest_child():
    """Return the one that was started last."""
    return children_with(__name__)[-1]


async def _line(reader):
    try:
        return await reader.readline()
    except ConnectionError:
        return b""


def _score(text, top):
    data = tuple(text.encode())
    others = tuple(TopToken(n, data if n == 0 else (97 + n,), -0.5 - n) for n in range(top))
    return TokenLogprob(1, data, -0.5, others)


def _tokens(prompt):
    texts = (prompt.text, *(message.content for message in prompt.messages))
    return len(prompt.tokens) + sum(len(text.split()) for text in texts)


async def main():
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=LONGEST_RESPONSE_BYTES)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    transport, protocol_ = await loop.connect_write_pipe(
        asyncio.streams.FlowControlMixin, sys.stdout
    )
    writer = asyncio.StreamWriter(transport, protocol_, None, loop)
    await ScriptedHost().serve(reader, writer)


if __name__ == "__main__":
    asyncio.run(main())
    os._exit(0)
