"""The settings that are kept between runs. Knows QSettings, no widget and no conversation."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Literal, get_args

from PySide6.QtCore import QByteArray, QSettings

from engine.process.protocol import Macs, Memory
from engine.request import Thinking
from models.errors import Problem

STARTER_NAME = "smollm2-135m-instruct"  # importing it from models.starter would take long
LEAST_FONT_POINTS, MOST_FONT_POINTS = 7.0, 32.0
USUAL_PARALLEL, MOST_PARALLEL = 4, 8  # answers at once
USUAL_PORT, LEAST_PORT, MOST_PORT = 8737, 1024, 65535  # of the local server
_MOST_PATHS = 8


class DraftsInText(StrEnum):
    """How drafts are shown in the text of an answer that is being written.

    Accepted words are coloured, and their colours fade, or stay until the conversation is opened
    again; or no draft is shown.
    """

    FADE = "fade"
    KEEP = "keep"
    OFF = "off"


ThemeChoice = Literal["system", "light", "dark"]


@dataclass(frozen=True, slots=True)
class Pair:
    """A target's folder and how to draft for it. `target` is empty for the starter model."""

    target: str = ""
    drafter: str = "auto"
    draft_length: str = "auto"


class _Keys:
    """The values of a `QSettings` by their keys, and which parts of the window are shown."""

    def __init__(self, stored: QSettings) -> None:
        self._stored = stored

    def switched(self, name: str, *, default: bool) -> bool:
        """Whether the part or view `name` is on."""
        value = self.value(f"shown/{name}")
        return value == "True" if isinstance(value, str) else default

    def switch(self, name: str, on: bool) -> None:
        """Remember whether the part or view `name` is on."""
        self.keep(f"shown/{name}", str(on))

    def value(self, key: str) -> object:
        """Return the value under `key`, or None."""
        return self._stored.value(key)

    def keep(self, key: str, value: object) -> None:
        """Store `value` under `key`."""
        self._stored.setValue(key, value)


class _Stored[T]:
    """An attribute of settings that is stored as text under `key`.

    `read` raises ValueError for a text that it cannot read. Then, and as long as nothing is
    stored, the attribute is `default`.
    """

    def __init__(self, key: str, default: T, read: Callable[[str], T]) -> None:
        self._key, self._default, self._read = key, default, read

    def __get__(self, keys: _Keys, owner: type[_Keys]) -> T:
        value = keys.value(self._key)
        try:
            return self._read(value) if isinstance(value, str) else self._default
        except ValueError:
            return self._default

    def __set__(self, keys: _Keys, value: T) -> None:
        keys.keep(self._key, str(value))


def _text(key: str, default: str = "") -> _Stored[str]:
    return _Stored(key, default, str)


def _switch(key: str, default: bool = False) -> _Stored[bool]:
    return _Stored(key, default, lambda text: text == "True")


def _number(key: str, default: int, *, least: int, most: float = math.inf) -> _Stored[int]:
    return _Stored(key, default, lambda text: _between(least, int(text), most))


def _between[N: (int, float)](least: float, number: N, most: float) -> N:
    """Return `number`, or raise ValueError for a number that is not from `least` to `most`."""
    if least <= number <= most:
        return number
    raise ValueError


def _theme(text: str) -> ThemeChoice:
    match text:
        case "light" | "dark" | "system" as theme:
            return theme
    raise ValueError


class Settings(_Keys):
    """The settings of all windows. An attribute is stored when it is set."""

    pair_target = _text("pair/target")
    pair_drafter = _text("pair/drafter", "auto")
    pair_draft_length = _text("pair/draft_length", "auto")
    starter_name = _text("pair/starter_name", STARTER_NAME)
    """The name that the starter model had when it was loaded last."""
    unload_minutes = _number("unload_minutes", 0, least=0)
    """Minutes after which an unused model is unloaded. 0: it stays while a window is open."""
    parallel = _number("parallel", USUAL_PARALLEL, least=1, most=MOST_PARALLEL)
    """How many answers may be written at once."""
    learn = _switch("learn")
    """Whether answers are kept, so that later answers can be drafted from them."""
    keep_documents = _switch("keep_documents", True)
    """Whether the engine caches documents on disk."""

    server_port = _number("server/port", USUAL_PORT, least=LEAST_PORT, most=MOST_PORT)
    """The port of the local server."""
    server_at_start = _switch("server/at_start")
    """Whether the local server starts with Slipstream."""
    server_models = _switch("server/models")
    """Whether the local server also loads other models of the Library, when asked."""
    hosts_file = _text("hosts/file")
    """The path of the file that names several Macs; may be empty."""
    hosts_used = _switch("hosts/used")
    """Whether targets are loaded on the Macs in `hosts_file`."""

    presets = _text("presets")
    """The user's own presets, in the format of `app.sampling.presets`."""
    prompts = _text("prompts")
    """The saved prompts, in the format of `app.chat.prompts`."""
    new_system_prompt = _text("new/system_prompt")
    """The system prompt of new conversations."""
    new_settings = _text("new/settings")
    """The answer settings of new conversations, in the format of `app.conversations.records`."""
    theme = _Stored[ThemeChoice]("theme", "system", _theme)
    """Whether windows are light or dark."""
    drafts_in_text = _Stored("drafts_in_text", DraftsInText.FADE, DraftsInText)
    """How drafts are shown in the text while an answer is written."""
    tokens_explained = _switch("tokens_explained")
    """Whether an answer has kept its colours once, with their legend."""
    enter_sends = _switch("enter_sends", True)
    """Whether Enter sends a message. If not, Ctrl+Enter or Cmd+Enter does."""
    notifications = _switch("notifications", True)
    """Whether a notification appears when an answer ends and no window is in use."""
    font_family = _text("font_family")
    """The font of the text. Empty: the system's."""
    font_points = _Stored[float | None](
        "font_points",
        None,
        lambda text: _between(LEAST_FONT_POINTS, float(text), MOST_FONT_POINTS),
    )
    """The size of the text. None: the system's."""
    last_folder = _text("last_folder")
    """The folder that was chosen last in a file dialog; may be empty."""

    def window(self, number: int) -> "WindowSettings":
        """Return the settings of the window with this number, from 1."""
        return WindowSettings(self._stored, number)

    @property
    def open_windows(self) -> tuple[int, ...]:
        """The numbers of the windows that were open at the end, in order; at least one number."""
        numbers = str(self.value("windows")).split()
        return tuple(sorted({int(n) for n in numbers if n.isdecimal() and int(n)})) or (1,)

    @open_windows.setter
    def open_windows(self, numbers: Iterable[int]) -> None:
        self.keep("windows", " ".join(str(number) for number in numbers))

    @property
    def pair(self) -> Pair:
        """The pair that was loaded last."""
        return Pair(self.pair_target, self.pair_drafter, self.pair_draft_length)

    @pair.setter
    def pair(self, pair: Pair) -> None:
        self.pair_target, self.pair_drafter = pair.target, pair.drafter
        self.pair_draft_length = pair.draft_length

    @property
    def macs(self) -> Macs:
        """The Macs on which targets are loaded; empty for this Mac alone."""
        if not (self.hosts_used and self.hosts_file):
            return Macs()
        return Macs(self.hosts_file)

    def memory(self, target: str) -> Memory:
        """Return the memory limits chosen for conversations with `target`, or the model's own."""
        context, _, bits = str(self.value(f"memory/{_key(target)}")).partition(" ")
        try:
            return Memory(int(context), int(bits))
        except (ValueError, Problem):
            return Memory()

    def keep_memory(self, target: str, memory: Memory) -> None:
        """Store the memory limits for conversations with `target`."""
        self.keep(f"memory/{_key(target)}", f"{memory.context} {memory.cache_bits}")

    def thinking(self, target: str) -> Thinking:
        """Return the thinking chosen last for `target`; "" for its makers' own way."""
        kept = self.value(f"thinking/{_key(target)}")
        return next((choice for choice in get_args(Thinking) if choice == kept), "")

    def keep_thinking(self, target: str, thinking: Thinking) -> None:
        """Store the thinking of new conversations with `target`."""
        self.keep(f"thinking/{_key(target)}", thinking)

    def read_seconds(self, target: str) -> float:
        """Return the seconds per prompt token that `target` took last; 0 if not known."""
        try:
            seconds = float(str(self.value(f"read_seconds/{_key(target)}")))
        except ValueError:
            return 0.0
        return seconds if 0 < seconds < math.inf else 0.0

    def keep_read_seconds(self, target: str, seconds: float) -> None:
        """Store the seconds per prompt token of `target`."""
        self.keep(f"read_seconds/{_key(target)}", repr(seconds))

    def paths(self, kind: str) -> tuple[str, ...]:
        """Return the opened paths of this kind ("targets" or "drafters"), newest first."""
        value = self.value(f"paths/{kind}")
        return tuple(filter(None, value.split("\n"))) if isinstance(value, str) else ()

    def opened_paths(self, kind: str) -> tuple[str, ...]:
        """Return the `paths` that still exist."""
        return tuple(path for path in self.paths(kind) if Path(path).exists())

    def remember_path(self, kind: str, path: str) -> None:
        """Put `path` in front of the opened paths of this kind."""
        known = [path, *(known for known in self.paths(kind) if known != path)]
        self.keep(f"paths/{kind}", "\n".join(known[:_MOST_PATHS]))

    def forget_path(self, kind: str, path: str) -> None:
        """Remove `path` from the opened paths of this kind."""
        kept = [known for known in self.paths(kind) if known != path]
        self.keep(f"paths/{kind}", "\n".join(kept))

    def save(self) -> None:
        """Write to the disk now."""
        self._stored.sync()


class WindowSettings(_Keys):
    """The settings of one window: its conversation, its unsent text, its parts and their sizes.

    The parts and sizes of the first window hold for another window until it has its own.
    """

    conversation = _Stored[int | None]("conversation", None, int)
    """The id of the conversation that was open last."""
    unsent = _text("unsent")
    """The unsent text of a conversation without messages."""

    def __init__(self, stored: QSettings, number: int) -> None:
        super().__init__(stored)
        self._own = "" if number == 1 else f"window{number}/"

    @property
    def placed(self) -> bool:
        """Whether this window was closed before, and so has a place of its own."""
        return self._stored.contains(f"{self._own}places/window")

    def place(self, name: str) -> QByteArray:
        """Return the state of the window or splitter `name`; empty if none was stored."""
        value = self.value(f"places/{name}")
        return value if isinstance(value, QByteArray) else QByteArray()

    def keep_place(self, name: str, state: QByteArray) -> None:
        """Store the state of the window or splitter `name`."""
        self.keep(f"places/{name}", state)

    def value(self, key: str) -> object:
        shared = key.startswith(("places/", "shown/"))
        return self._stored.value(self._own + key, self._stored.value(key) if shared else None)

    def keep(self, key: str, value: object) -> None:
        self._stored.setValue(self._own + key, value)


def _key(target: str) -> str:
    """Return a key without slashes for `target`, which is empty for the starter model."""
    letters = (letter if letter.isalnum() or letter in "-._" else "_" for letter in target)
    return "".join(letters) or "starter"
