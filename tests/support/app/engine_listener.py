"""Writes down all that an EngineProcess tells, in order, and waits for it."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.events import Done, Failed, Text

ROOT = Path(__file__).parents[3]
TIMEOUT_SECONDS = 120  # for hangs only


@dataclass(frozen=True)
class Told:
    """A signal and its values."""

    name: str
    value: Any = None


class Listener:
    """Attributes: `engine`, and `told`, everything that it told."""

    def __init__(self, engine, qtbot):
        self.engine, self._qtbot = engine, qtbot
        self.told = []
        self._events = {}
        engine.happened.connect(
            lambda event: self._events.setdefault(event.generation, []).append(event)
        )
        for name in ("ready", "loading", "loaded", "happened", "failed", "hung", "died"):
            getattr(engine, name).connect(self._writer(name))
        engine.state_changed.connect(self._writer("state_changed"))
        for name in ("unloaded", "responsive"):
            getattr(engine, name).connect(lambda name=name: self.told.append(Told(name)))

    def _writer(self, name):
        return lambda value: self.told.append(Told(name, value))

    def all(self, name):
        return [told.value for told in self.told if told.name == name]

    def names(self):
        """Of what was told; states by their own name, and a row of events once."""
        names = []
        for told in self.told:
            name = told.value.name if told.name == "state_changed" else told.name
            if name != "happened" or names[-1:] != ["happened"]:
                names.append(name)
        return names

    def of(self, generation):
        return self._events.get(generation, [])

    def text(self, generation):
        return "".join(event.delta for event in self.of(generation) if isinstance(event, Text))

    def until(self, holds):
        self._qtbot.waitUntil(lambda: bool(holds()), timeout=TIMEOUT_SECONDS * 1000)

    def until_told(self, name, count=1):
        """Wait for the signal's `count`th time; returns its values."""
        self.until(lambda: len(self.all(name)) >= count)
        return self.all(name)[count - 1]

    def until_events(self, generation, count):
        """Wait until this many events of a generation have come."""
        self.until(lambda: len(self.of(generation)) >= count)

    def end_of(self, generation):
        self.until(lambda: isinstance((self.of(generation) or [None])[-1], Done | Failed))
        return self.of(generation)[-1]

    def check(self):
        """After `stop`: that each generation ended once, and was not heard of again."""
        for events in self._events.values():
            ends = [event for event in events if isinstance(event, Done | Failed)]
            assert ends == events[-1:]

    def signal(self, number):
        assert self.engine.pid > 0  # 0 would be ourselves
        os.kill(self.engine.pid, number)
