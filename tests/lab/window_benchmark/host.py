"""Stands in for the engine in the benchmark of the window: plays made-up rounds at a given speed.

Its arguments: characters, tokens per second. It speaks `engine.process.protocol`; knows no model,
no MLX and no Qt.
"""

import sys
import time
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from threading import Thread

from engine.conversation.stats import update
from engine.events import Done, DoneReason, Failed, Prefill, Stats
from engine.process import protocol
from engine.process.protocol import (
    Cancel,
    Command,
    Generate,
    Load,
    Loaded,
    Loading,
    Memory,
    Quit,
    Ready,
    Response,
    SetDrafter,
)
from engine.request import Sampling
from tests.lab.window_benchmark.rounds import committed, made_rounds, made_text

Say = Callable[[Response], None]
CommandRunner = SimpleQueue[Command]


def main(arguments: Sequence[str]) -> None:
    """Answer commands until the standard input ends."""
    characters, speed = int(arguments[0]), float(arguments[1])
    text = made_text(characters)
    commands: CommandRunner = SimpleQueue()
    Thread(target=_read, args=(commands,), daemon=True).start()
    say(Ready(protocol.PROTOCOL, "", "", "", "none"))
    target = drafter = length = ""
    while not isinstance(command := commands.get(), Quit):
        match command:
            case Load():
                target, drafter, length = command.target, command.drafter, command.draft_length
            case SetDrafter():
                drafter = command.drafter or drafter
                length = command.draft_length or length
            case Generate():
                play(command.id, text, speed=speed, commands=commands, say=say)
                continue
            case _:
                continue
        pair = (command.id, target, drafter, length)
        say(Loading(*pair, measured=0.0))
        shape = ("float32", 1 << 16, 50_000)
        say(
            Loaded(
                *pair,
                *shape,
                "",
                Memory(),
                Sampling(),
                4,
                exact=False,
                batching=True,
                macs=protocol.Macs(),
                knows_tools=True,
                thinking=(),
                notation=None,
                sees=False,
            )
        )


def play(
    generation: str,
    text: str,
    *,
    speed: float,
    commands: CommandRunner,
    say: Say,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Say the rounds of `text`, `speed` tokens a second, up to the end or a command to stop."""
    stats, begin, written = Stats(), clock(), 0
    reason: DoneReason = "stop"
    first = Prefill(generation, 64, 64, 0, 0.01)
    stats = update(stats, first)
    say(first)
    for events in made_rounds(text, generation=generation):
        sleep(max(0.0, begin + written / speed - clock()))
        if _stops(commands, generation, say):
            reason = "cancelled"
            break
        for event in events:
            stats = update(stats, event)
            say(event)
        written += committed(events)
    say(Done(generation, reason, stats))


def say(response: Response) -> None:
    """One line of the protocol."""
    sys.stdout.buffer.write(protocol.RESPONSES.to_line(response))
    sys.stdout.buffer.flush()


def _stops(commands: CommandRunner, generation: str, say: Say) -> bool:
    """Whether this generation was cancelled; what else has come is refused, as it is not played."""
    while True:
        try:
            command = commands.get_nowait()
        except Empty:
            return False
        if isinstance(command, Quit):
            commands.put(command)
            return True
        if isinstance(command, Cancel):
            if command.id == generation:
                return True
            continue
        say(Failed(command.id, "The benchmark plays one answer at a time.", "Wait for it."))


def _read(commands: CommandRunner) -> None:
    for line in sys.stdin.buffer:
        commands.put(protocol.parse_command(line))
    commands.put(Quit())


if __name__ == "__main__":
    main(sys.argv[1:])
