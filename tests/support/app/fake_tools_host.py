"""A process that runs tools, without any: it takes the steps that it is given, for tests.

    python -m tests.support.app.fake_tools_host COUNTER ready take serve -- ready kill

Each life takes the steps up to the next "--"; COUNTER is a file that counts the lives. Steps:

ready[:version]   greet              serve[:word] answer everything, until the input ends
take              read a command     print:word  write this line
kill, hang        end in that way, or never

It serves each server as running with the tools `read` and `write`, described with the word, but
one whose command is "broken" as failed; a call returns its arguments. Its arguments may say how:
{"do": "kill"}, "hang", "twice" (two results) or "stranger" (a result that no one asked for, first).

Writes the language of `engine.tools.protocol` by hand, as `fake_host` does.
"""

import json
import os
import signal
import sys
import time

OWN = "Slipstream"
SCHEMA = json.dumps({"type": "object", "properties": {"path": {"type": "string"}}})


def main():
    counter, *steps = sys.argv[1:]
    lives = " ".join(steps).split(" -- ")
    with open(counter, "a+") as file:
        file.write(".")
        life = file.tell()
    for step in lives[min(life, len(lives)) - 1].split():
        take(*step.partition(":")[::2])


def take(step, word):
    match step:
        case "ready":
            say("ready", protocol=int(word or 1))
        case "take":
            sys.stdin.buffer.readline()
        case "serve":
            serve(word)
        case "print":
            print(word, flush=True)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "hang":
            time.sleep(3600)
        case _:
            raise ValueError(step)


def serve(word):
    running = {}
    for line in sys.stdin.buffer:
        command = json.loads(line)
        match command["command"]:
            case "start":
                servers = ({"name": OWN, "command": ""}, *command["servers"])
                running = {server["name"]: server for server in servers}
                for server in running.values():
                    tell(server, word)
            case "restart":
                tell(running[command["server"]], word)
            case "call":
                answer(command["id"], command["arguments"])
            case "cancel":
                end(command["id"], "cancelled", "It was stopped.")


def tell(server, word):
    name = server["name"]
    say("state", server=name, state="starting")
    if server["command"] == "broken":
        remedy = "Install it, or correct the command."
        message = f"{name} could not be started: there is no program “broken”."
        say("state", server=name, state="failed", message=message, remedy=remedy)
        return
    of_both = {"server": name, "schema": SCHEMA}
    read = {"name": "read", "title": "Read", "description": f"Reads {word or name}."}
    write = {"name": "write", "description": "Writes to a file."}
    tools = [of_both | read | {"read_only": True}, of_both | write]
    print(f"{name}: it runs", file=sys.stderr, flush=True)
    known = {"version": "1.2.0", "instructions": "Ask before you write."}
    say("state", server=name, state="running", tools=tools, **known)


def answer(id, arguments):
    match json.loads(arguments).get("do"):
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "hang":
            say("progress", id=id, done=1.0, total=2.0, message="half")
            return
        case "stranger":
            end("stranger", "done", "")
        case "twice":
            end(id, "done", "first")
    end(id, "done", arguments, seconds=0.1, bytes=len(arguments))


def end(id, ending, text, **spent):
    say("result", id=id, ending=ending, text=text, **spent)


def say(event, **fields):
    sys.stdout.buffer.write(json.dumps({"event": event, **fields}).encode() + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
