"""A process that runs tools, without any: it takes the steps that it is given, for tests.

    python -m tests.support.app.fake_tools_host COUNTER ready take serve -- ready kill

Each life takes the steps up to the next "--"; COUNTER is a file that counts the lives. Steps:

ready[:version]   greet              serve[:word] answer everything, until the input ends
take              read a command     result:id   the result of a call
print:word        write this line    exit:n, kill, hang     end in that way, or never

It serves each server as running with the tools `read` and `write`, described with the word, but
one whose command is "broken" as failed; a call returns its arguments. Its arguments may say how:
{"do": "kill"}, "hang", "twice" (two results) or "stranger" (a result that nobody asked for, first).
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

from engine.tools.protocol import (
    COMMANDS,
    OWN,
    PROTOCOL,
    RESPONSES,
    Call,
    Cancel,
    Offered,
    Progress,
    Ready,
    Response,
    Restart,
    Result,
    Server,
    Start,
    State,
)

SCHEMA = json.dumps({"type": "object", "properties": {"path": {"type": "string"}}})


def main() -> None:
    counter, *steps = sys.argv[1:]
    path = Path(counter)
    life = int(path.read_text()) if path.exists() else 0
    path.write_text(str(life + 1))
    lives = " ".join(steps).split(" -- ")
    for step in lives[min(life, len(lives) - 1)].split():
        take(*step.partition(":")[::2])


def take(step: str, word: str) -> None:
    match step:
        case "ready":
            say(Ready(int(word or PROTOCOL)))
        case "take":
            sys.stdin.buffer.readline()
        case "serve":
            serve(word)
        case "result":
            say(Result(word, "done", "told"))
        case "print":
            print(word, flush=True)
        case "exit":
            os._exit(int(word))
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "hang":
            time.sleep(3600)
        case _:
            raise ValueError(step)


def serve(word: str) -> None:
    running: dict[str, Server] = {}
    for line in sys.stdin.buffer:
        match COMMANDS.read(line):
            case Start(servers):
                running = {server.name: server for server in (Server(OWN), *servers)}
                for server in running.values():
                    tell(server, word)
            case Restart(name):
                tell(running[name], word)
            case Call() as call:
                answer(call)
            case Cancel(id):
                say(Result(id, "cancelled", "It was stopped."))


def tell(server: Server, word: str) -> None:
    say(State(server.name, "starting"))
    if server.command == "broken":
        remedy = "Install it, or correct the command."
        message = f"{server.name} could not be started: there is no program “broken”."
        say(State(server.name, "failed", message=message, remedy=remedy))
        return
    read = Offered(server.name, "read", "Read", f"Reads {word or server.name}.", SCHEMA, True)
    write = Offered(server.name, "write", "", "Writes to a file.", SCHEMA)
    print(f"{server.name}: it runs", file=sys.stderr, flush=True)
    say(State(server.name, "running", (read, write), "1.2.0", "Ask before you write."))


def answer(call: Call) -> None:
    match json.loads(call.arguments).get("do"):
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "hang":
            say(Progress(call.id, 1.0, 2.0, "half"))
            return
        case "stranger":
            say(Result("stranger", "done", ""))
        case "twice":
            say(Result(call.id, "done", "first"))
    say(Result(call.id, "done", call.arguments, 0.1, len(call.arguments)))


def say(response: Response) -> None:
    sys.stdout.buffer.write(RESPONSES.to_line(response))
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
