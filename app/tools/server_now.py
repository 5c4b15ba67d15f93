"""What is said of a server and its tools, as they are now. Knows values; no widget, no process."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from app.theme.labels import Tone
from engine.tools.configuration import Configuration, digest
from engine.tools.protocol import OWN, Offered, Server, State

_CHANGED = "Changed since you switched it on{what}. It is off until you say that it is fine."
_PARTS = ("its title", "its description", "its arguments", "whether it is read-only")


@dataclass(frozen=True, slots=True)
class ServerNow:
    """A server as it is set up, and its state. `before`: tools as they were when they were on, by
    server and name; `log`: the end of its log."""

    server: Server
    state: State
    setup: Configuration
    before: Mapping[tuple[str, str], Offered] = field(default_factory=dict)
    log: str = ""

    @property
    def own(self) -> bool:
        """Whether its tools are those that come along."""
        return self.server.name == OWN

    @property
    def title(self) -> str:
        return "Comes with Slipstream" if self.own else self.server.name

    @property
    def on(self) -> bool:
        return self.server.name not in self.setup.disabled

    @property
    def tools(self) -> tuple[Offered, ...]:
        return self.state.tools if self.on else ()

    @property
    def line(self) -> tuple[str, Tone]:
        """Its state, and how that is to be taken."""
        if not self.on:
            return "Off. None of its tools can be used.", "muted"
        if self.state.state == "starting":
            return "Starting…", "muted"
        if self.state.state == "failed":
            return f"{self.state.message} {self.state.remedy}".strip(), "warning"
        if changed := sum(map(self.setup.has_changed, self.tools)):
            return f"Running. {changed} of its tools changed: see below.", "warning"
        if self.own:
            return "Part of Slipstream: no other program runs for them.", "muted"
        return "Running.", "good"

    @property
    def short(self) -> str:
        """Its state in a few words."""
        if not self.tools:
            return self.line[0].partition(".")[0]
        return f"{sum(map(self.setup.is_on, self.tools))} of {len(self.tools)} on"

    @property
    def says(self) -> str:
        """What it says about itself."""
        words = filter(None, (self.state.version, self.state.instructions))
        return "" if self.own else "\n\n".join(words)

    def changed(self, tool: Offered) -> str:
        """What is not as it was when a person switched a tool on; empty if nothing is."""
        if not self.setup.has_changed(tool):
            return ""
        seen, now = self.setup.seen[tool.server][tool.name].split(), digest(tool).split()
        same = len(seen) == len(now)
        what = (
            [name for name, a, b in zip(_PARTS, seen, now, strict=True) if a != b] if same else []
        )
        return _CHANGED.format(what=f": {', '.join(what)}" if what else "")

    def details(self, tool: Offered) -> str:
        """All that is said of a tool; of one that has changed, first what was said before."""
        before = self.before.get((tool.server, tool.name))
        if before and self.setup.has_changed(tool):
            return f"Before:\n\n{_all_of(before, tool)}\n\nNow:\n\n{_all_of(tool)}"
        return _all_of(tool)


def _all_of(tool: Offered, other: Offered | None = None) -> str:
    """Return the words about a tool, without those that are the same about the `other`."""
    return "\n\n".join(
        _indented(words)
        for words, same in zip(_words(tool), _words(other) if other else ("",) * 3, strict=True)
        if words and words != same
    )


def _words(tool: Offered) -> tuple[str, ...]:
    return tool.title, tool.description, tool.schema


def _indented(words: str) -> str:
    """Return JSON in lines; other words as they are."""
    try:
        return json.dumps(json.loads(words), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return words
