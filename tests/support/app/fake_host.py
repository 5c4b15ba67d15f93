"""Stands in for the engine's child process, and misbehaves as it is told.

Arguments: a file that counts its lives, then what to do in the first life, `--`, in the second,
and so on; the last is repeated. Each word is one step:

    ready | protocol:N     greet, as version N
    take                   read the next command that is not `cancel`, or the end
    as:NUMBER              go on with the command that was taken as that one, from 1
    drafting               draft as it was asked; `drafting:TARGET`, with that target
    load | begin           load what was taken, or only unload what was there
    thinks                 load it as a model that can be asked to think or not
    text:WORD | done | failed                 say so of what was taken
    waiting:AHEAD | reading:DONE:TOTAL | counted:TOKENS   the same
    ranks:STATE:STATE...   tell the states of several Macs
    lost                   end as the engine does where the second of two Macs is lost
    stale | refused        say something of a generation that is over, of nothing at all
    play:FILE              say the events in a file of them, as those of what was taken
    part:NUMBER:FILE       only so many of them
    race:FILE:FILE         those of the plain answer, then those of the other one
    long:BYTES             a text whose line has so many bytes, its end included
    print:WORD | half | unended              what is no response, half of one, one without an end
    complain:WORD | spew   to standard error, a line or more than a pipe holds
    serve                  answer everything until the end of standard input
    wait:FILE              until that file is there
    rest                   say nothing more, and end with the input
    hang                   say nothing more, and never end
    exit:STATUS | kill
"""

# ruff: noqa: E402

import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import ModuleType

# Nothing is computed here: without the package's own beginning, a process begins in half the time.
engine = sys.modules["engine"] = ModuleType("engine")
engine.__path__ = [str(Path(__file__).parents[3] / "engine")]

from engine.cluster.states import RankState
from engine.events import Done, Failed, Prefill, Stats, Text, Waiting, from_json
from engine.exactness import ANY_ROWS, Exactness
from engine.process import protocol
from engine.process.protocol import (
    Cancel,
    Command,
    Count,
    Counted,
    Generate,
    Load,
    Loaded,
    Loading,
    Macs,
    Memory,
    Ranks,
    Ready,
    Response,
    SetDrafter,
    Unload,
    Unloaded,
)
from engine.request import Sampling


def main() -> None:
    counter, *words = sys.argv[1:]
    lives = " ".join(words).split(" -- ")
    with Path(counter).open("a+") as file:
        file.write(".")
        life = file.tell()
    command: Command = Cancel("")
    taken: list[Command] = []
    for step in lives[min(life, len(lives)) - 1].split():
        name, _, word = step.partition(":")
        command = taken[int(word) - 1] if name == "as" else do(name, word, command)
        if name == "take":
            taken.append(command)


def do(step: str, word: str, command: Command) -> Command:
    """Take one step; returns the command that was taken last."""
    id = getattr(command, "id", "")
    match step:
        case "ready":
            say(Ready(protocol.PROTOCOL, "3", "0", "0", "none"))
        case "protocol":
            say(Ready(int(word), "3", "0", "0", "none"))
        case "take":
            return take() or command
        case "load":
            load(command)
        case "thinks":
            load(command, thinking=("on", "off"))
        case "drafting":
            draft(command, target=word or "/models/tiny")
        case "begin":
            say(Loading(id, "", "", "", 0.0), Unloaded(id))
        case "text":
            say(Text(id, word))
        case "waiting":
            say(Waiting(id, int(word)))
        case "reading":
            done, _, total = word.partition(":")
            say(Prefill(id, int(done), int(total), 0, 0.1))
        case "counted":
            say(Counted(id, int(word), ""))
        case "done":
            say(Done(id, "stop", Stats()))
        case "failed" | "refused":
            say(Failed(id if step == "failed" else "", "It does not work.", "Do otherwise."))
        case "ranks":
            say(Ranks(tuple(map(mac, range(9), word.split(":")))))
        case "lost":
            problem = ("mac-1.local does not answer any more.", "Check the Macs, then ask again.")
            say(Failed(id, *problem), Failed("", *problem))
            os._exit(1)
        case "stale":
            say(Text("old", "stale"), Done("old", "stop", Stats()), Failed("old", "m", "r"))
        case "play" | "part":
            number, _, path = word.rpartition(":")
            play(id, Path(path), int(number) if step == "part" else None)
        case "race":
            plain, _, other = word.partition(":")
            play(protocol.rival_of(id), Path(plain), None)
            play(id, Path(other), None)
        case "long":
            length = int(word) - len(line(Text(id, "")))
            say(Text(id, "x" * length))
        case "print":
            put(word.encode() + b"\n")
        case "half":
            put(line(Text(id, "never"))[:-9])
        case "unended":
            put(line(Text(id, "last"))[:-1])
        case "complain":
            print(word, file=sys.stderr, flush=True)
        case "spew":
            print(("spew " * 40 + "\n") * 500, end="", file=sys.stderr, flush=True)
        case "serve":
            serve()
        case "wait":
            while not Path(word).exists():
                time.sleep(0.01)
        case "rest":
            sys.stdin.buffer.read()
        case "hang":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(3600)
        case "exit":
            os._exit(int(word))
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case _:
            raise ValueError(step)
    return command


def take() -> Command | None:
    for data in sys.stdin.buffer:
        command = protocol.parse_command(data)
        if not isinstance(command, Cancel):
            return command
    return None


def load(command: Command, *, thinking: tuple[str, ...] = ()) -> None:
    assert isinstance(command, Load)
    pair = (command.id, command.target, command.drafter, command.draft_length)
    context = min(command.memory.context or 4096, 4096)
    side_by_side = (
        command.parallel,
        Exactness(ANY_ROWS),
        command.exact != "on",
        command.macs,
        True,
        thinking,
        None,
    )
    held = 40_000_000_000 if "large" in command.target else 0
    loaded = Loaded(
        *pair, "float32", context, 260, "", command.memory, Sampling(), *side_by_side, True, held
    )
    say(Loading(*pair, measured=0.0), loaded)


def draft(command: Command, *, target: str) -> None:
    assert isinstance(command, SetDrafter)
    drafting = (command.drafter or "auto", command.draft_length or "auto")
    pair = (command.id, target, *drafting)
    rest = (Memory(), Sampling(), 4, Exactness(ANY_ROWS), True, Macs(), True, (), None, True, 0)
    say(Loading(*pair, measured=0.0), Loaded(*pair, "float32", 4096, 260, "", *rest))


def mac(rank: int, state: str) -> RankState:
    """Return the state of one of several Macs, with 8 layers of a target if it has joined."""
    known = RankState(rank, f"mac-{rank}.local", state)  # type: ignore[arg-type]
    if state == "starting":
        return known
    return replace(
        known,
        chip="Apple M4 Max",
        layers=(8 * rank, 8 * rank + 8),
        needed_bytes=21_400_000_000,
        free_bytes=48_000_000_000,
    )


def serve() -> None:
    while command := take():
        if isinstance(command, Load):
            load(command)
        elif isinstance(command, Count):
            say(Counted(command.id, len(command.prompt.messages), ""))
        elif isinstance(command, Unload):
            say(Unloaded(command.id))
        elif isinstance(command, SetDrafter):
            draft(command, target="/models/tiny")
        elif isinstance(command, Generate):
            say(Text(command.id, "served"), Done(command.id, "stop", Stats()))


def play(id: str, path: Path, number: int | None) -> None:
    events = map(from_json, path.read_text(encoding="utf-8").splitlines()[:number])
    say(*(replace(event, generation=id) for event in events))


def line(response: Response) -> bytes:
    return protocol.RESPONSES.to_line(response)


def say(*responses: Response) -> None:
    put(b"".join(map(line, responses)))


def put(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
