"""Writes down all that an EngineProcess tells, in order, and waits for it."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytestqt.qtbot import QtBot

from app.engine_client.engine_process import EngineProcess
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

    def __init__(self, engine: EngineProcess, qtbot: QtBot) -> None:
        self.engine, self._qtbot = engine, qtbot
        self.told: list[Told] = []
        self._events: dict[str, list[Any]] = {}
        engine.happened.connect(
            lambda event: self._events.setdefault(event.generation, []).append(event)
        )
        for name in ("ready", "loading", "loaded", "happened", "failed", "hung", "died"):
            getattr(engine, name).connect(self._writer(name))
        engine.state_changed.connect(self._writer("state_changed"))
        for name in ("unloaded", "responsive"):
            getattr(engine, name).connect(lambda name=name: self.told.append(Told(name)))

    def _writer(self, name: str) -> Callable[[Any], None]:
        return lambda value: self.told.append(Told(name, value))

    def all(self, name: str) -> list[Any]:
        return [told.value for told in self.told if told.name == name]

    def names(self) -> list[str]:
        """Of what was told; states by their own name, and a row of events once."""
        names: list[str] = []
        for told in self.told:
            name = told.value.name if told.name == "state_changed" else told.name
            if name != "happened" or names[-1:] != ["happened"]:
                names.append(name)
        return names

    def of(self, generation: str) -> list[Any]:
        """A generation's events."""
        return self._events.get(generation, [])

    def text(self, generation: str) -> str:
        return "".join(event.delta for event in self.of(generation) if isinstance(event, Text))

    def until(self, holds: Callable[[], object]) -> None:
        self._qtbot.waitUntil(lambda: bool(holds()), timeout=TIMEOUT_SECONDS * 1000)

    def until_told(self, name: str, count: int = 1) -> Any:
        """Wait for the signal's `count`th time; returns its values."""
        self.until(lambda: len(self.all(name)) >= count)
        return self.all(name)[count - 1]

    def until_events(self, generation: str, count: int) -> None:
        """Wait until this many events of a generation have come."""
        self.until(lambda: len(self.of(generation)) >= count)

    def end_of(self, generation: str) -> Done | Failed:
        """Wait until it is over."""
        self.until(lambda: isinstance((self.of(generation) or [None])[-1], Done | Failed))
        end: Done | Failed = self.of(generation)[-1]
        return end

    def check(self) -> None:
        """After `stop`: that each generation ended once, and was not heard of again."""
        for events in self._events.values():
            ends = [event for event in events if isinstance(event, Done | Failed)]
            assert ends == events[-1:]

    def signal(self, number: int) -> None:
        """Send one to the process."""
        assert self.engine.pid > 0  # 0 would be ourselves
        os.kill(self.engine.pid, number)
