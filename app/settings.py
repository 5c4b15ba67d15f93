"""What windows remember between runs, apart from conversations. Knows QSettings, no widget."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from PySide6.QtCore import QByteArray, QSettings

from engine.protocol import Macs, Memory
from models.errors import Problem

STARTER_NAME = "smollm2-135m-instruct"  # importing it from models.starter would take long
LEAST_FONT_POINTS, MOST_FONT_POINTS = 7.0, 32.0
USUAL_PARALLEL, MOST_PARALLEL = 4, 8  # answers at once
USUAL_PORT, LEAST_PORT, MOST_PORT = 8737, 1024, 65535  # of the local server
ThemeChoice = Literal["system", "light", "dark"]
_MOST_PATHS = 8


@dataclass(frozen=True, slots=True)
class Pair:
    """A target's folder and how to draft for it. An empty `target` is the starter model."""

    target: str = ""
    drafter: str = "auto"
    draft_length: str = "auto"


class _Stored:
    """Texts and switches by their keys."""

    def __init__(self, stored: QSettings) -> None:
        self._stored = stored

    def switched(self, name: str, *, default: bool) -> bool:
        """Whether the part or view `name` is on."""
        return self._text(f"shown/{name}", str(default)) == "True"

    def switch(self, name: str, on: bool) -> None:
        """Remember whether `name` is on."""
        self._keep(f"shown/{name}", str(on))

    def _text(self, key: str, default: str) -> str:
        value = self._value(key)
        return value if isinstance(value, str) else default

    def _value(self, key: str) -> object:
        return self._stored.value(key)

    def _keep(self, key: str, value: object) -> None:
        self._stored.setValue(key, value)


class Settings(_Stored):
    """Attributes are written as they are set; one that cannot be read is as on the first run."""

    def __init__(self, stored: QSettings) -> None:
        super().__init__(stored)
        stored.remove("plain")  # averages over days, which earlier versions compared answers with

    def window(self, number: int) -> "WindowSettings":
        """What the window with this number, from 1, remembers."""
        return WindowSettings(self._stored, number)

    @property
    def open_windows(self) -> tuple[int, ...]:
        """The numbers of the windows that were open at the end, at least one."""
        numbers = self._text("windows", "").split()
        return tuple(sorted({int(n) for n in numbers if n.isdecimal() and int(n)})) or (1,)

    @open_windows.setter
    def open_windows(self, numbers: Iterable[int]) -> None:
        self._keep("windows", " ".join(str(number) for number in sorted(numbers)))

    @property
    def pair(self) -> Pair:
        """The pair that was loaded last."""
        return Pair(
            self._text("pair/target", ""),
            self._text("pair/drafter", "auto"),
            self._text("pair/draft_length", "auto"),
        )

    @pair.setter
    def pair(self, pair: Pair) -> None:
        self._keep("pair/target", pair.target)
        self._keep("pair/drafter", pair.drafter)
        self._keep("pair/draft_length", pair.draft_length)

    def memory(self, target: str) -> Memory:
        """What a conversation with this target may take; as the model allows where not chosen."""
        context, _, bits = self._text(f"memory/{_key(target)}", "").partition(" ")
        try:
            return Memory(int(context), int(bits))
        except (ValueError, Problem):
            return Memory()

    def keep_memory(self, target: str, memory: Memory) -> None:
        self._keep(f"memory/{_key(target)}", f"{memory.context} {memory.cache_bits}")

    def read_seconds(self, target: str) -> float:
        """How long this target took to read a token of a prompt, at last; 0 where not known."""
        try:
            seconds = float(self._text(f"read_seconds/{_key(target)}", "0"))
        except ValueError:
            return 0.0
        return seconds if 0 < seconds < math.inf else 0.0

    def keep_read_seconds(self, target: str, seconds: float) -> None:
        self._keep(f"read_seconds/{_key(target)}", repr(seconds))

    @property
    def unload_minutes(self) -> int:
        """How long a model that is not asked stays loaded; 0 for as long as the window is open."""
        text = self._text("unload_minutes", "0")
        return int(text) if text.isdecimal() else 0

    @unload_minutes.setter
    def unload_minutes(self, minutes: int) -> None:
        self._keep("unload_minutes", str(minutes))

    @property
    def parallel(self) -> int:
        """How many answers may be written at once."""
        text = self._text("parallel", "")
        number = int(text) if text.isdecimal() else USUAL_PARALLEL
        return number if 1 <= number <= MOST_PARALLEL else USUAL_PARALLEL

    @parallel.setter
    def parallel(self, number: int) -> None:
        self._keep("parallel", str(number))

    @property
    def exact(self) -> bool:
        """Whether answers that are written at once are rounded as each would be alone."""
        return self._text("exact", "False") == "True"

    @exact.setter
    def exact(self, on: bool) -> None:
        self._keep("exact", str(on))

    @property
    def learn(self) -> bool:
        """Whether answers are drafted from earlier ones, which are kept for that."""
        return self._text("learn", "False") == "True"

    @learn.setter
    def learn(self, on: bool) -> None:
        self._keep("learn", str(on))

    @property
    def keep_documents(self) -> bool:
        """Whether what was read of documents is kept on disk, so that it is read once."""
        return self._text("keep_documents", "True") == "True"

    @keep_documents.setter
    def keep_documents(self, on: bool) -> None:
        self._keep("keep_documents", str(on))

    @property
    def server_port(self) -> int:
        """Where the local server listens."""
        text = self._text("server/port", "")
        port = int(text) if text.isdecimal() else USUAL_PORT
        return port if LEAST_PORT <= port <= MOST_PORT else USUAL_PORT

    @server_port.setter
    def server_port(self, port: int) -> None:
        self._keep("server/port", str(port))

    @property
    def server_at_start(self) -> bool:
        """Whether the local server is switched on with Slipstream."""
        return self._text("server/at_start", "False") == "True"

    @server_at_start.setter
    def server_at_start(self, on: bool) -> None:
        self._keep("server/at_start", str(on))

    @property
    def hosts_file(self) -> str:
        """The file that names several Macs; empty for none."""
        return self._text("hosts/file", "")

    @hosts_file.setter
    def hosts_file(self, path: str) -> None:
        self._keep("hosts/file", path)

    @property
    def hosts_used(self) -> bool:
        """Whether targets are loaded on these Macs."""
        return self._text("hosts/used", "False") == "True"

    @hosts_used.setter
    def hosts_used(self, on: bool) -> None:
        self._keep("hosts/used", str(on))

    @property
    def hosts_trusted(self) -> bool:
        """Whether everybody on the network of these Macs is trusted."""
        return self._text("hosts/trusted", "False") == "True"

    @hosts_trusted.setter
    def hosts_trusted(self, on: bool) -> None:
        self._keep("hosts/trusted", str(on))

    @property
    def macs(self) -> Macs:
        """Where targets are loaded."""
        if not (self.hosts_used and self.hosts_file):
            return Macs()
        return Macs(self.hosts_file, self.hosts_trusted)

    @property
    def starter_name(self) -> str:
        """The starter model's name when it was loaded last."""
        return self._text("pair/starter_name", STARTER_NAME)

    @starter_name.setter
    def starter_name(self, name: str) -> None:
        self._keep("pair/starter_name", name)

    def paths(self, kind: str) -> tuple[str, ...]:
        """The targets, or drafters, that a person opened from elsewhere, newest first."""
        return tuple(path for path in self._text(f"paths/{kind}", "").split("\n") if path)

    def remember_path(self, kind: str, path: str) -> None:
        """Offer this path from now on."""
        known = [path, *(known for known in self.paths(kind) if known != path)]
        self._keep(f"paths/{kind}", "\n".join(known[:_MOST_PATHS]))

    def opened_paths(self, kind: str) -> tuple[str, ...]:
        """Those of `paths` that are still there."""
        return tuple(path for path in self.paths(kind) if Path(path).exists())

    def forget_path(self, kind: str, path: str) -> None:
        """Offer it no longer."""
        kept = [known for known in self.paths(kind) if known != path]
        self._keep(f"paths/{kind}", "\n".join(kept))

    @property
    def presets(self) -> str:
        """A person's own presets, as `app.sampling.presets` writes them."""
        return self._text("presets", "")

    @presets.setter
    def presets(self, text: str) -> None:
        self._keep("presets", text)

    @property
    def new_system_prompt(self) -> str:
        """The system prompt that new conversations begin with."""
        return self._text("new/system_prompt", "")

    @new_system_prompt.setter
    def new_system_prompt(self, text: str) -> None:
        self._keep("new/system_prompt", text)

    @property
    def new_settings(self) -> str:
        """How new conversations are answered, as `app.conversations.records` writes it."""
        return self._text("new/settings", "")

    @new_settings.setter
    def new_settings(self, text: str) -> None:
        self._keep("new/settings", text)

    @property
    def theme(self) -> ThemeChoice:
        """Whether windows are light or dark; "system" leaves it to the system."""
        match self._text("theme", "system"):
            case "light" | "dark" as chosen:
                return chosen
            case _:
                return "system"

    @theme.setter
    def theme(self, theme: ThemeChoice) -> None:
        self._keep("theme", theme)

    @property
    def enter_sends(self) -> bool:
        """Whether Enter sends a message; else it begins a line, and sends with Ctrl or Cmd."""
        return self._text("enter_sends", "True") == "True"

    @enter_sends.setter
    def enter_sends(self, on: bool) -> None:
        self._keep("enter_sends", str(on))

    @property
    def notifications(self) -> bool:
        """Whether a person who is elsewhere is told that an answer has ended."""
        return self._text("notifications", "True") == "True"

    @notifications.setter
    def notifications(self, on: bool) -> None:
        self._keep("notifications", str(on))

    @property
    def font_family(self) -> str:
        """The font of the text; empty for the system's own."""
        return self._text("font_family", "")

    @font_family.setter
    def font_family(self, family: str) -> None:
        self._keep("font_family", family)

    @property
    def font_points(self) -> float | None:
        """The size of the text; None for the system's own."""
        try:
            points = float(self._text("font_points", ""))
        except ValueError:
            return None
        return points if LEAST_FONT_POINTS <= points <= MOST_FONT_POINTS else None

    @font_points.setter
    def font_points(self, points: float | None) -> None:
        self._keep("font_points", "" if points is None else str(points))

    @property
    def last_folder(self) -> str:
        """The folder that was chosen last in a file dialog; empty for none."""
        return self._text("last_folder", "")

    @last_folder.setter
    def last_folder(self, folder: str) -> None:
        self._keep("last_folder", folder)

    def save(self) -> None:
        """Write to the disk now."""
        self._stored.sync()


class WindowSettings(_Stored):
    """What one window remembers: its conversation, its unsent text, its parts and their sizes.

    What the first window was given holds for another one until that was given its own.
    """

    def __init__(self, stored: QSettings, number: int) -> None:
        super().__init__(stored)
        self._own = "" if number == 1 else f"window{number}/"

    @property
    def conversation(self) -> int | None:
        """The conversation that was open last."""
        text = self._text("conversation", "")
        return int(text) if text.isdecimal() else None

    @conversation.setter
    def conversation(self, conversation: int | None) -> None:
        self._keep("conversation", "" if conversation is None else str(conversation))

    @property
    def unsent(self) -> str:
        """The unsent text of a conversation that has no message yet."""
        return self._text("unsent", "")

    @unsent.setter
    def unsent(self, text: str) -> None:
        self._keep("unsent", text)

    @property
    def placed(self) -> bool:
        """Whether this window was closed before, and so has a place of its own."""
        return self._stored.contains(f"{self._own}places/window")

    def place(self, name: str) -> QByteArray:
        """The state that the window or a splitter saved under `name`; empty where there is none."""
        value = self._value(f"places/{name}")
        return value if isinstance(value, QByteArray) else QByteArray()

    def keep_place(self, name: str, state: QByteArray) -> None:
        """Remember that state."""
        self._keep(f"places/{name}", state)

    def _value(self, key: str) -> object:
        shared = key.startswith(("places/", "shown/"))
        return self._stored.value(self._own + key, self._stored.value(key) if shared else None)

    def _keep(self, key: str, value: object) -> None:
        self._stored.setValue(self._own + key, value)


def _key(target: str) -> str:
    """A key of one level, whatever is in the name; the starter model has none."""
    letters = (letter if letter.isalnum() or letter in "-._" else "_" for letter in target)
    return "".join(letters) or "starter"
