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
"""

# ruff: noqa: E402

import os
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from types import ModuleType

# As in `fake_host`.
engine = sys.modules["engine"] = ModuleType("engine")
engine.__path__ = [str(Path(__file__).parents[3] / "engine")]

from engine.process.protocol import COMMANDS, Cancel, Command, Count, Generate, Load, Unload
from engine.request import Prompt
from engine.server.status import (
    STATUSES,
    ClientStatus,
    ModelState,
    ModelStatus,
    RequestState,
    RequestStatus,
    ServerStatus,
)

PROMPT = Prompt(text="Tell me about the treasure under the oak.")


def main() -> None:
    counter, *words = sys.argv[1:]
    words, given = words[: words.index("--attached")], words[words.index("--attached") :]
    port = given[given.index("--port") + 1]
    lives = " ".join(words).split(" -- ")
    with Path(counter).open("a+") as file:
        file.write(".")
        life = file.tell()
    address = f"http://127.0.0.1:{port}"
    requests: list[RequestStatus] = []
    models: list[ModelStatus] = []
    for step in lives[min(life, len(lives)) - 1].split():
        name, _, word = step.partition(":")
        do(name, word, address=address, requests=requests, models=models)


def do(
    step: str,
    word: str,
    *,
    address: str,
    requests: list[RequestStatus],
    models: list[ModelStatus],
) -> None:
    """Take one step."""
    match step:
        case "listen":
            problem = word.replace("_", " ")
            tell(ServerStatus("" if problem else address, problem))
        case "request":
            id, _, state = word.partition(":")
            requests[:] = [one for one in requests if one.id != id]
            states: dict[str, RequestState] = {"writing": "writing", "reading": "reading"}
            name, _, client = state.partition(":")
            endpoint = "/messages" if client.startswith("claude") else "/chat/completions"
            known = states.get(name, "waiting")
            requests.append(
                RequestStatus(*(id, endpoint, client or "Zed", known, 5, 7), model="tiny")
            )
            tell(status(address, requests, models))
        case "model":
            known_as, _, name = word.partition(":")
            states_of: dict[str, ModelState] = {"loaded": "loaded", "loading": "loading"}
            now = states_of.get(known_as, "not loaded")
            models.append(ModelStatus(name, now, 4_200_000_000 if now == "loaded" else 0))
            tell(status(address, requests, models))
        case "over":
            requests.clear()
            tell(ServerStatus(address))
        case "generate":
            ask(Generate(f"http-{word}", "", PROMPT))
        case "count":
            ask(Count(f"http-{word}", PROMPT))
        case "cancel":
            ask(Cancel(f"http-{word}"))
        case "unload":
            ask(Unload("http-u"))
        case "load":
            ask(Load("http-l", "/models/other"))
        case "stranger":
            ask(Generate("mine", "", PROMPT))
        case "take":
            sys.stdin.buffer.readline()
        case "record":
            with Path(word).open("ab", buffering=0) as file:
                for line in sys.stdin.buffer:
                    file.write(line)
        case "print":
            put(word)
        case "complain":
            print(word, file=sys.stderr, flush=True)
        case "quote":
            print(PROMPT.text, file=sys.stderr, flush=True)
        case "exit":
            os._exit(int(word))
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "wait":
            while not Path(word).exists():
                time.sleep(0.01)
        case "rest":
            sys.stdin.buffer.read()
        case _:
            raise ValueError(step)


def status(address: str, requests: list[RequestStatus], models: list[ModelStatus]) -> ServerStatus:
    return ServerStatus(
        address,
        requests=tuple(requests),
        clients=clients_of(requests),
        models=tuple(models),
    )


def clients_of(requests: list[RequestStatus]) -> tuple[ClientStatus, ...]:
    asked = Counter(request.client for request in requests)
    return tuple(ClientStatus(*pair) for pair in asked.items())


def ask(command: Command) -> None:
    put(COMMANDS.to_json(command))


def tell(status: ServerStatus) -> None:
    put(STATUSES.to_json(status))


def put(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
