"""Stands in for the local server's process, and does what it is told.

Arguments: a file that counts its lives, then what to do in the first life, `--`, in the second, and
so on, the last repeated; then what every server is started with. Each word is one step:

    listen | listen:PROBLEM   say where it can be asked, at the port it was given; or why it cannot,
                              with underscores for spaces
    request:ID:STATE[:CLIENT]   tell of a request, whose generation is http-ID
    model:STATE:NAME          tell of a model, with an underscore for the space in its state
    over                      tell that there are no requests
    generate:ID | count:ID | cancel:ID   ask the engine, as http-ID
    unload | load | stranger  ask for what a server may not
    take                      read a line
    record:FILE               write all lines that come into a file, until the end of the input
    print:WORD | complain:WORD | quote   say what is no command; to standard error; the prompt there
    wait:FILE                 until that file is there
    exit:STATUS | kill
    rest                      say nothing more, until the input ends

Writes the languages of `engine.server.status` and `engine.process.protocol` by hand.
"""

import json
import os
import signal
import sys
import time
from collections import Counter

PROMPT = {"text": "Tell me about the treasure under the oak."}


def main():
    counter, *words = sys.argv[1:]
    words, given = words[: words.index("--attached")], words[words.index("--attached") :]
    port = given[given.index("--port") + 1]
    lives = " ".join(words).split(" -- ")
    with open(counter, "a+") as file:
        file.write(".")
        life = file.tell()
    status = {"address": f"http://127.0.0.1:{port}", "requests": [], "models": []}
    for step in lives[min(life, len(lives)) - 1].split():
        name, _, word = step.partition(":")
        do(name, word, status)


def do(step, word, status):
    """Take one step. `status`: of the server, with the requests."""
    id = f"http-{word}"
    match step:
        case "listen":
            tell({"problem": word.replace("_", " ")} if word else status)
        case "request":
            known_as, state, client = (*word.split(":"), "Zed")[:3]
            request = {
                "id": known_as,
                "endpoint": "/chat/completions",
                "client": client,
                "state": state,
                "prompt_tokens": 5,
                "tokens": 7,
                "model": "tiny",
            }
            others = [one for one in status["requests"] if one["id"] != known_as]
            status["requests"] = [*others, request]
            tell(status)
        case "model":
            state, name = word.split(":")
            needed = 4_200_000_000 if state == "loaded" else 0
            model = {"name": name, "state": state.replace("_", " "), "needed_bytes": needed}
            status["models"].append(model)
            tell(status)
        case "over":
            status["requests"] = []
            tell({"address": status["address"]})
        case "generate":
            ask("generate", id=id, conversation="", prompt=PROMPT)
        case "count":
            ask("count", id=id, prompt=PROMPT)
        case "cancel":
            ask("cancel", id=id)
        case "unload":
            ask("unload", id="http-u")
        case "load":
            ask("load", id="http-l", target="/models/other")
        case "stranger":
            ask("generate", id="mine", conversation="", prompt=PROMPT)
        case "take":
            sys.stdin.buffer.readline()
        case "record":
            with open(word, "ab", buffering=0) as file:
                for line in sys.stdin.buffer:
                    file.write(line)
        case "print":
            put(word)
        case "complain":
            print(word, file=sys.stderr, flush=True)
        case "quote":
            print(PROMPT["text"], file=sys.stderr, flush=True)
        case "exit":
            os._exit(int(word))
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "wait":
            while not os.path.exists(word):
                time.sleep(0.01)
        case "rest":
            sys.stdin.buffer.read()
        case _:
            raise ValueError(step)


def tell(status):
    """Tell the window of a server, with how often each client has asked."""
    asked = Counter(request["client"] for request in status.get("requests", ()))
    clients = [{"client": client, "requests": count} for client, count in asked.items()]
    put(json.dumps({"status": "serving", **status, "clients": clients}))


def ask(command, **fields):
    put(json.dumps({"command": command, **fields}))


def put(line):
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
