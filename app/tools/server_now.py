"""What is said of a server and its tools, as they are now. Knows values; no widget, no process."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from app.theme.labels import Tone
from engine.tools.configuration import Configuration
from engine.tools.protocol import OWN, Offered, Server, State

_CHANGED = "Changed since you switched it on{what}. It is off until you say that it is fine."


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
        version = f"Version {self.state.version}" if self.state.version else ""
        return "" if self.own else "\n\n".join(filter(None, (version, self.state.instructions)))

    def changed(self, tool: Offered) -> str:
        """What is not as it was when a person switched a tool on; empty if nothing is."""
        if not self.setup.has_changed(tool):
            return ""
        before = self.before.get((tool.server, tool.name))
        parts = before and {
            "its title": before.title != tool.title,
            "its description": before.description != tool.description,
            "its arguments": before.schema != tool.schema,
            "whether it is read-only": before.read_only != tool.read_only,
        }
        what = ", ".join(part for part, other in (parts or {}).items() if other)
        return _CHANGED.format(what=f": {what}" if what else "")

    def details(self, tool: Offered) -> str:
        """All that is said of a tool; of one that has changed, also what was said before."""
        before = self.before.get((tool.server, tool.name))
        if before and self.setup.has_changed(tool):
            return f"Now:\n\n{_all_of(tool)}\n\nBefore:\n\n{_all_of(before)}"
        return _all_of(tool)


def _all_of(tool: Offered) -> str:
    try:
        schema = json.dumps(json.loads(tool.schema), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        schema = tool.schema
    return "\n\n".join(filter(None, (tool.title, tool.description, schema)))
