"""Ranks on loopback that MLX's own launcher starts, for tests, and a stand-in for ssh."""

import json
import os
from collections import defaultdict
from contextlib import contextmanager
from queue import SimpleQueue

import psutil

from engine.cluster.hosts import HERE, read_hosts
from engine.events import Done, Failed, Text
from engine.process.launch import Deadlines, Launch
from engine.process.protocol import COMMANDS, RESPONSES, Generate, Load, Loaded, Macs, rival_of
from engine.request import Request, Sampling, asked
from models.errors import Problem

SECONDS = 300  # for hangs only
TOKENS = 24
GREEDY = Sampling(temperature=0.0, logit_bias={256: -1000.0})  # without an end


def hostfile(folder, names=(HERE, HERE)):
    """A hostfile of Macs that are all this machine, reached by these names."""
    path = folder / "macs.json"
    path.write_text(json.dumps([{"ssh": name, "ips": [HERE]} for name in names]))
    return path


def stand_in_for_ssh(folder):
    """Put a program in the place of ssh, with a pseudoterminal as that of `ssh -tt`. Returns the
    PATH on which it is found."""
    program = folder / "ssh"
    program.write_text(
        '#!/bin/sh\nfor word; do last="$word"; done\n'
        'case "$*" in *-tt*) exec script -qefc "$last" /dev/null ;; esac\n'
        'exec sh -c "$last"\n'
    )
    program.chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


class Launched:
    """Attributes: `launch`; `lost`, why it ended; `proposed`, the tokens of all drafts."""

    def __init__(self, hosts, **deadlines):
        self._hosts = str(hosts)
        self._said = SimpleQueue()
        self.lost = []
        self.proposed = 0
        self.launch = Launch(
            read_hosts(hosts),
            heard=lambda line: self._said.put(RESPONSES.read(line)),
            lost=self._on_lost,
            deadlines=Deadlines(**deadlines),
        )

    def _on_lost(self, problem):
        self.lost.append(problem)
        self._said.put(problem)

    def load(self, target, drafter="none", *, mode="auto"):
        """Load a pair; drafts have 3 tokens. Returns what is said last."""
        *_, last = self.ask(Load("l", str(target), drafter, "3", macs=Macs(self._hosts, mode)))
        return last

    def begin(self, text, tokens):
        """The events of an answer."""
        request = Request(sampling=GREEDY, max_tokens=tokens)
        return self.ask(Generate("g", "chat", asked(text), request))

    def answers(self, questions):
        """The texts of answers side by side. A third one is in a race, with the same plain text."""
        texts = defaultdict(str)
        commands = [
            Generate(str(number), "chat", asked(text), request, race=number == 2)
            for number, (text, sampling) in enumerate(questions)
            for request in [Request(sampling=sampling, max_tokens=TOKENS)]
        ]
        for event in self.ask(*commands):
            assert not isinstance(event, Failed), event
            if isinstance(event, Text):
                texts[event.generation] += event.delta
            elif isinstance(event, Done):
                self.proposed += event.stats.proposed
        assert texts.get(rival_of("2")) == texts.get("2")
        return [texts[command.id] for command in commands]

    def ask(self, *commands):
        """The responses to commands. Raises the `Problem` with which the ranks are lost."""
        owed = {command.id for command in commands}
        owed |= {rival_of(each.id) for each in commands if getattr(each, "race", False)}
        for command in commands:
            self.launch.write(COMMANDS.to_line(command))
        while owed:
            said = self._said.get(timeout=SECONDS)
            if isinstance(said, Problem):
                raise said
            yield said
            if isinstance(said, Loaded | Done | Failed):
                owed.discard(said.id if isinstance(said, Loaded) else said.generation)

    def ranks(self):
        """The ranks' processes."""
        return {
            int(each.environ()["MLX_RANK"]): each
            for each in psutil.Process(self.launch.pid).children(recursive=True)
            if each.cmdline()[1:4] == ["-m", "engine", "rank"]
        }


@contextmanager
def launched(hosts, **deadlines):
    """Ranks that have met; they end with the block. Raises the `Problem` if they do not meet."""
    ranks = Launched(hosts, **deadlines)
    try:
        ranks.launch.meet()
        yield ranks
    finally:
        ranks.launch.close()


def gone(processes, seconds=20.0):
    """Whether all end within so many seconds."""
    _, alive = psutil.wait_procs(list(processes), timeout=seconds)
    return all(each.status() == psutil.STATUS_ZOMBIE for each in alive)
