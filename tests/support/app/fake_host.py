"""Stands in for the engine's child process, and misbehaves as it is told.

Arguments: a file that counts its lives, then what to do in the first life, `--`, in the second,
and so on; the last is repeated. Each word is one step:

    ready | protocol:N     greet, as version N
    take                   read the next command that is not `cancel`, or the end
    as:NUMBER              go on with the command that was taken as that one, from 1
    drafting               draft as it was asked
    load | begin           load what was taken, or only unload what was there
    thinks                 load it as a model that can be asked to think or not
    text:WORD | done | failed                 say so of what was taken
    waiting:AHEAD | reading:DONE:TOTAL | counted:TOKENS   the same
    ranks:STATE:STATE...   tell the states of several Macs
    lost                   end as the engine does where the second of two Macs is lost
    refused                say that nothing in particular does not work
    play:FILE              say the events in a file of them, as those of what was taken
    part:NUMBER:FILE       only so many of them
    race:FILE:FILE         those of the plain answer, then those of the other one
    long:BYTES             a text whose line has so many bytes, its end included
    print:WORD | half | unended              what is no response, half of one, one without an end
    complain:WORD | spew   to standard error, a line or more than a pipe holds
    serve                  answer everything until the end of standard input
    wait:FILE              until that file is there, or to the end of the input
    rest                   say nothing more, and end with the input
    hang                   say nothing more, and never end
    exit:STATUS | kill

Writes the language of `engine.process.protocol` by hand; its reader refuses any other line. Without
the engine's modules a process begins in a sixth of the time, and most tests start one; `pathlib`
and `typing` would take a third of what is left.
"""

import json
import os
import select
import signal
import sys
import time

LANGUAGE = __file__.rpartition("/tests/")[0] + "/engine/process/protocol.py"
with open(LANGUAGE) as language:
    PROTOCOL = language.read().partition("\nPROTOCOL = ")[2].split()[0]
EXACT = {"rows": 1 << 30}


def main():
    counter, *words = sys.argv[1:]
    lives = " ".join(words).split(" -- ")
    with open(counter, "a+") as file:
        file.write(".")
        life = file.tell()
    command = {"id": ""}
    taken = []
    for step in lives[min(life, len(lives)) - 1].split():
        name, _, word = step.partition(":")
        command = taken[int(word) - 1] if name == "as" else do(name, word, command)
        if name == "take":
            taken.append(command)


def do(step, word, command):
    """Take one step; returns the command that was taken last."""
    id = command["id"]
    match step:
        case "ready" | "protocol":
            say("ready", protocol=int(word or PROTOCOL), python="3", mlx="0", mlx_lm="0", device="")
        case "take":
            return take() or command
        case "load":
            load(command)
        case "thinks":
            load(command, thinking=["on", "off"])
        case "drafting":
            draft(command)
        case "begin":
            say("loading", id=id, target="", drafter="", draft_length="", measured=0.0)
            say("unloaded", id=id)
        case "text":
            say("text", generation=id, delta=word)
        case "waiting":
            say("waiting", generation=id, ahead=int(word))
        case "reading":
            done, total = map(int, word.split(":"))
            say("prefill", generation=id, processed=done, total=total, reused=0, seconds=0.1)
        case "counted":
            say("counted", id=id, tokens=int(word))
        case "done":
            finish(id)
        case "failed" | "refused":
            fail(id if step == "failed" else "", "It does not work.", "Do otherwise.")
        case "ranks":
            say("ranks", ranks=[mac(*each) for each in enumerate(word.split(":"))])
        case "lost":
            problem = ("mac-1.local does not answer any more.", "Check the Macs, then ask again.")
            fail(id, *problem)
            fail("", *problem)
            os._exit(1)
        case "play" | "part":
            number, _, path = word.rpartition(":")
            play(id, path, int(number) if step == "part" else None)
        case "race":
            plain, _, other = word.partition(":")
            play(id + "/plain", plain, None)
            play(id, other, None)
        case "long":
            length = int(word) - len(line("text", generation=id, delta=""))
            say("text", generation=id, delta="x" * length)
        case "print":
            put(word.encode() + b"\n")
        case "half":
            put(line("text", generation=id, delta="never")[:-9])
        case "unended":
            put(line("text", generation=id, delta="last")[:-1])
        case "complain":
            print(word, file=sys.stderr, flush=True)
        case "spew":
            print(("spew " * 40 + "\n") * 500, end="", file=sys.stderr, flush=True)
        case "serve":
            serve()
        case "wait":
            ended = select.poll()
            ended.register(sys.stdin, 0)  # of its end alone
            while not os.path.exists(word):
                if ended.poll(10):
                    sys.exit()
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


def take():
    for data in sys.stdin.buffer:
        command = json.loads(data)
        if command["command"] != "cancel":
            return command
    return None


def load(command, *, thinking=None):
    assert command["command"] == "load"
    memory, large = command["memory"], "large" in command["target"]
    tell_pair(
        {name: command[name] for name in ("id", "target", "drafter", "draft_length")},
        context_length=min(memory["context"] or 4096, 4096),
        memory=memory,
        parallel=command["parallel"],
        macs=command["macs"],
        thinking=thinking or [],
        held_bytes=40_000_000_000 if large else 0,
    )


def draft(command):
    assert command["command"] == "drafting"
    drafting = {name: command[name] or "auto" for name in ("drafter", "draft_length")}
    tell_pair({"id": command["id"], "target": "/models/tiny", **drafting})


def tell_pair(pair, **loaded):
    say("loading", **pair, measured=0.0)
    defaults = {
        "precision": "float32",
        "context_length": 4096,
        "vocabulary": 260,
        "remark": "",
        "memory": {},
        "sampling": {},
        "parallel": 4,
        "exact": EXACT,
        "macs": {},
        "thinking": [],
        "reasons": False,
        "fills_gaps": False,
        "sees": True,
        "held_bytes": 0,
    }
    say("loaded", **pair, **defaults | loaded)


def mac(rank, state):
    """Return the state of one of several Macs, with 8 layers of a target if it has joined."""
    known = {"rank": rank, "host": f"mac-{rank}.local", "state": state}
    if state == "starting":
        return known
    return known | {
        "chip": "Apple M4 Max",
        "layers": [8 * rank, 8 * rank + 8],
        "needed_bytes": 21_400_000_000,
        "free_bytes": 48_000_000_000,
    }


def serve():
    while command := take():
        id = command["id"]
        match command["command"]:
            case "load":
                load(command)
            case "count":
                messages = command["prompt"]["messages"]
                pictures = sum(len(each.get("pictures", ())) for each in messages)
                say("counted", id=id, tokens=len(messages) + 256 * pictures)
            case "unload":
                say("unloaded", id=id)
            case "drafting":
                draft(command)
            case "generate":
                say("text", generation=id, delta="served")
                finish(id)


def finish(id):
    say("done", generation=id, reason="stop", stats={})


def fail(id, message, remedy):
    say("failed", generation=id, message=message, remedy=remedy)


def play(id, path, number):
    with open(path, encoding="utf-8") as file:
        events = map(json.loads, file.read().splitlines()[:number])
    put(b"".join(as_line(event | {"generation": id}) for event in events))


def line(event, **fields):
    return as_line({"event": event} | fields)


def as_line(fields):
    return json.dumps(fields).encode() + b"\n"


def say(event, **fields):
    put(line(event, **fields))


def put(data):
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
