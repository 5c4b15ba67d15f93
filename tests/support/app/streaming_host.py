"""Stands in for the engine: streams a long made-up answer at a given speed.

Its arguments: characters, tokens per second. It speaks `engine.process.protocol`; knows no model,
no MLX and no Qt.
"""

import sys
import time
from queue import Empty, SimpleQueue
from threading import Thread

from engine.conversation.stats import update
from engine.events import Done, Failed, Prefill, Stats, Verdict
from engine.exactness import ANY_ROWS, Exactness
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
    SetDrafter,
)
from engine.request import Sampling
from tests.support.app.long_texts import made_text
from tests.support.app.made_traces import made_rounds


def main(characters, speed):
    """Answer commands until the standard input ends."""
    text, commands = made_text(characters), SimpleQueue[Command]()
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
                play(command.id, text, speed, commands)
                continue
            case _:
                continue
        pair = (command.id, target, drafter, length)
        say(Loading(*pair, measured=0.0))
        loaded = Loaded(
            *(*pair, "float32", 1 << 16, 50_000, "", Memory(), Sampling(), 4),
            exact=Exactness(ANY_ROWS),
            macs=protocol.Macs(),
            thinking=(),
            reasons=False,
            fills_gaps=False,
            sees=False,
            held_bytes=0,
        )
        say(loaded)


def play(generation, text, speed, commands):
    """Say the rounds of `text`, `speed` tokens a second, up to the end or a command to stop."""
    begin, written = time.monotonic(), 0
    reason = "stop"
    first = Prefill(generation, 64, 64, 0, 0.01)
    stats = update(Stats(), first)
    say(first)
    for events in made_rounds(text, generation):
        time.sleep(max(0.0, begin + written / speed - time.monotonic()))
        if _stops(commands, generation):
            reason = "cancelled"
            break
        for event in events:
            stats = update(stats, event)
            say(event)
            written += event.accepted + 1 if isinstance(event, Verdict) else 0
    say(Done(generation, reason, stats))


def say(response):
    """One line of the protocol."""
    sys.stdout.buffer.write(protocol.RESPONSES.to_line(response))
    sys.stdout.buffer.flush()


def _stops(commands, generation):
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
        say(Failed(command.id, "One answer is played at a time.", "Wait for it."))


def _read(commands):
    for line in sys.stdin.buffer:
        commands.put(protocol.parse_command(line))
    commands.put(Quit())


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
