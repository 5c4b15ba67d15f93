"""A process that leads a group, for tests: what it is told, it does with `Cluster`.

    python -m tests.support.engine.leading '{"hosts": PATH, "deadlines": {}, "follower": null}'

Commands and what came of them are lines of JSON: `{"load": FOLDER, "mode": "pipeline"}` and
`{"ask": TEXT, "tokens": 8}`; `{"said": NAME, ...}`. After `{"fingerprint": FOLDER}` it is that one,
as it was then, that is loaded. `follower`: a command in place of the usual one.
"""

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from engine.cluster.connect import Cluster
from engine.cluster.followers import Deadlines, follower_command
from engine.cluster.hosts import read_hosts
from engine.cluster.states import RankState
from engine.conversation.loading import LoadedModel
from engine.conversation.session import Session
from engine.events import Text
from engine.request import Request, Sampling, asked
from models.errors import Problem
from models.model_folder import ModelFolder, inspect


def say(said: str, **more: Any) -> None:
    sys.stdout.write(json.dumps({"said": said} | more) + "\n")  # at once, beside another thread's
    sys.stdout.flush()


def lost(problem: Problem) -> None:
    say("lost", message=problem.message)
    os._exit(1)


def changed(ranks: tuple[RankState, ...]) -> None:
    say("ranks", ranks=[asdict(rank) for rank in ranks])


def main(options: dict[str, Any]) -> None:
    follower = options["follower"]
    try:
        cluster = Cluster.connect(
            read_hosts(Path(options["hosts"])),
            changed=changed,
            lost=lost,
            deadlines=Deadlines(**options["deadlines"]),
            command=(lambda host, environment: follower) if follower else follower_command,
        )
    except Problem as problem:
        say("problem", message=problem.message)
        os._exit(2)
    say("connected")
    loaded: LoadedModel | None = None
    known: ModelFolder | None = None
    for line in sys.stdin:
        command = json.loads(line)
        try:
            if "fingerprint" in command:
                known = inspect(Path(command["fingerprint"]))
                say("fingerprint", fingerprint=known.fingerprint)
            elif "load" in command:
                folder = known or inspect(Path(command["load"]))
                loaded = cluster.load(folder, mode=command.get("mode"))
                say("loaded")
            else:
                assert loaded is not None
                ask(loaded, command)
        except Problem as problem:
            say("problem", message=problem.message)
        except RuntimeError as error:
            say("problem", message=cluster.why(error).message)
    cluster.close()
    os._exit(0)


def ask(target: LoadedModel, command: dict[str, Any]) -> None:
    greedy = Sampling(temperature=0.0, logit_bias={256: -1000.0})
    request = Request(sampling=greedy, max_tokens=command["tokens"])
    text = ""
    for event in Session(target).answer(asked(command["ask"]).messages, request):
        if isinstance(event, Text):
            if not text:
                say("begun")
            text += event.delta
    say("answered", text=text)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
