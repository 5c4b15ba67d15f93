"""The rows of the Library's pages as plain values: their texts and their actions.

Pure functions from records to text; knows no widgets.
"""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from app.models import formatting
from models import in_words
from models.records import (
    KIND_NAMES,
    PROGRAM_NAMES,
    Candidate,
    Download,
    Incomplete,
    Installed,
    Inventory,
    SearchResult,
)

DOT = " · "
_NAME = re.compile(r"[\w.-]+/[\w.-]+(/[^/]+\.gguf)?", re.ASCII | re.IGNORECASE)

ActionName = Literal["get", "use", "pause", "resume", "cancel", "delete", "clean", "forget"]


@dataclass(frozen=True, slots=True)
class Action:
    """A button of a row: `name` is for the program, `text` for the user.

    `reason` says why it is disabled; empty if it is enabled.
    """

    name: ActionName
    text: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RowData:
    """The contents of a row. `heading` is shown above it if it differs from the row before.

    `key` is unique on a page. `subject` is what the actions apply to; if empty, the key. `line`
    explains, `remark` adds to it. `reason` says why it cannot be chosen, or names the fault; with
    `warns`, as a warning. `progress` is from 0 to 1, or None if nothing is under way.
    """

    key: str
    title: str
    line: str = ""
    remark: str = ""
    badge: str = ""
    reason: str = ""
    warns: bool = False
    progress: float | None = None
    actions: tuple[Action, ...] = ()
    heading: str = ""
    subject: str = ""

    @property
    def reasons(self) -> str:
        """The reasons why actions are disabled; empty if all are enabled."""
        disabled = dict.fromkeys(action.reason for action in self.actions)
        return self.reason or " ".join(
            reason for reason in disabled if reason and reason != self.line
        )

    @property
    def accessible_text(self) -> str:
        """The whole row, for a screen reader."""
        name = f"{self.title}, not available" if self.reason and not self.warns else self.title
        parts = (name, self.badge, self.line, self.remark, self.reasons)
        return ". ".join(part.rstrip(".") for part in parts if part)


@dataclass(frozen=True, slots=True)
class LoadedPair:
    """The loaded pair: the target's folder, and the drafter as a value of `--drafter`."""

    target: str = ""
    drafter: str = ""


_AUTOMATIC = Candidate("auto", "automatic", True, "Chooses the best drafter for you.")
_IN_USE = "This model is loaded. To delete it, choose another model first."
_GET, _USE = Action("get", "Download"), Action("use", "Use")
_GETTING = Action("get", "Download", "Already downloading. See Downloads.")


def found_rows(
    found: Sequence[SearchResult], *, inventory: Inventory, downloads: Sequence[Download]
) -> tuple[RowData, ...]:
    """Return the results of a search. A model that cannot be chosen has a reason."""
    under_way = {download.repository.lower(): download for download in downloads}
    return tuple(
        _found_row(
            result, inventory.find(result.repository), under_way.get(result.repository.lower())
        )
        for result in found
    )


def named_row(
    name: str, found: Sequence[SearchResult], *, inventory: Inventory, downloads: Sequence[Download]
) -> tuple[RowData, ...]:
    """Return a row for a repository, or a GGUF file in one, that the user searched by its full name
    and that was not found; none if `name` is not such a name."""
    known = {result.repository.lower() for result in found}
    known |= {download.repository.lower() for download in downloads}
    if _NAME.fullmatch(name) is None or name.lower() in known or inventory.find(name) is not None:
        return ()
    line = "Not in the results. Download it by its name"
    return (RowData(name, name, line, actions=(_GET,)),)


def _found_row(
    found: SearchResult, installed: Installed | None, download: Download | None
) -> RowData:
    facts = [
        "" if found.size_bytes is None else in_words.size(found.size_bytes),
        f"{formatting.format_count(found.downloads)} downloads",
        formatting.format_licence(found.licence),
        "consent required" if found.gated else "",
        f"updated {found.updated[:10]}" if found.updated else "",
    ]
    actions: tuple[Action, ...]
    badge, progress = "", None
    if installed is not None:
        badge, actions = "On this machine", _use_actions(installed)
    elif download is not None:
        badge, progress = _STATUS[download.status], _progress(download)
        actions = (_GETTING,)
    else:
        actions = (Action("get", "Download", found.reason),)
    return RowData(
        found.repository,
        found.repository,
        DOT.join(filter(None, facts)),
        badge=badge,
        reason="" if installed else found.reason,
        progress=progress,
        actions=actions,
    )


def download_rows(downloads: Sequence[Download]) -> tuple[RowData, ...]:
    """Return the queue, in order. A reason is not repeated for later downloads."""
    reasons: set[str] = set()
    rows = []
    for download in downloads:
        row = _download_row(download)
        rows.append(replace(row, reason="") if row.reason in reasons else row)
        reasons.add(row.reason)
    return tuple(rows)


def _download_row(download: Download) -> RowData:
    wait = {"pause": "Pausing…", "cancel": "Cancelling…", "": ""}[download.request]
    done = in_words.share(download.done_bytes, download.total_bytes) if download.total_bytes else ""
    first = Action("pause", "Pause", wait)
    facts = [_STATUS[download.status], done]
    match download.status:
        case "running":
            rate, left = download.bytes_per_second, download.seconds_left
            facts = [
                done or "Reading file sizes…",
                f"{in_words.size(rate)}/s" if rate > 0 else "",
                "" if left is None else in_words.left(left),
            ]
        case "paused":
            first = Action("resume", "Resume", wait)
        case "failed":
            first = Action("resume", "Try again", wait)
    return RowData(
        download.repository,
        download.repository,
        wait or DOT.join(filter(None, facts)),
        reason=f"{download.problem} {download.remedy}".strip(),
        warns=download.status == "failed",
        progress=_progress(download),
        actions=(first, Action("cancel", "Cancel", wait)),
    )


def disk_rows(
    inventory: Inventory,
    loaded: LoadedPair,
    *,
    opened: Sequence[str] = (),
    now: float | None = None,
) -> tuple[RowData, ...]:
    """Return rows for this machine: installed models, paths that the user `opened`,
    leftovers of interrupted downloads, added folders."""
    now = time.time() if now is None else now
    known = {model.path for model in inventory.installed}
    return (
        *(_installed_row(model, loaded, now) for model in inventory.installed),
        *(_opened_row(path, in_use=path == loaded.target) for path in opened if path not in known),
        *(_incomplete_row(left) for left in inventory.incomplete),
        *(_folder_row(folder) for folder in inventory.folders),
    )


def _bits(model: Installed) -> str:
    """Return the bits of a model's weights; a drafter that was published in more is loaded in
    fewer."""
    if model.quantization_bits is not None:
        return f"{model.quantization_bits}-bit"
    return "loaded in 8 bits" if model.role == "drafter" else ""


def _installed_row(model: Installed, loaded: LoadedPair, now: float) -> RowData:
    drafts = loaded.drafter in (model.path, model.name)
    in_use = "In use" if model.path == loaded.target else "In use as draft model" if drafts else ""
    role = {"chat": "", "drafter": "drafter only", "head": "drafter head"}[model.role]
    origin = {
        "starter": "starter model" if model.role == "chat" else "included with Slipstream",
        "hub": "from the hub",
        "imported": "imported",
        "folder": "in an added folder",
        **{key: f"in {program}'s folder" for key, program in PROGRAM_NAMES.items()},
    }[model.origin]
    facts = [
        in_words.size(model.size_bytes),
        "" if model.role == "head" else KIND_NAMES.get(model.drafter_kind, ""),
        _bits(model),
        model.model_type,
        "" if model.context_length is None else formatting.format_context(model.context_length),
        role,
        origin,
        "" if model.last_used is None else f"used {in_words.ago(max(0.0, now - model.last_used))}",
    ]
    return RowData(
        f"model:{model.path}",  # several models may have the same name
        model.name,
        DOT.join(filter(None, facts)),
        badge=in_use,
        reason=f"{model.problem} {model.remedy}".strip(),
        warns=bool(model.problem),
        actions=(
            *_use_actions(model, in_use=bool(in_use)),
            Action("delete", "Delete…", _why_kept(model, in_use=bool(in_use))),
        ),
        heading="Models",
        subject=model.path,
    )


def _why_kept(model: Installed, *, in_use: bool) -> str:
    """Return why a model cannot be deleted; empty if it can."""
    if in_use:
        return _IN_USE
    if model.removable:
        return ""
    if model.origin == "starter":
        return "This model is included with Slipstream and cannot be deleted."
    if program := PROGRAM_NAMES.get(model.origin):
        return f"This model is in {program}'s folder. Delete it in {program}."
    return "This model is in a folder that you added. Delete it there."


def _use_actions(model: Installed, *, in_use: bool = False) -> tuple[Action, ...]:
    if in_use or model.role != "chat":
        return ()  # the row says so: a drafter is chosen on the page of drafters
    return (Action("use", "Use", model.problem),)


def _incomplete_row(left: Incomplete) -> RowData:
    return RowData(
        f"incomplete:{left.path}",
        left.name,
        f"{in_words.size(left.size_bytes)} left by an interrupted download or import",
        actions=(Action("clean", "Clean up"),),
        heading="Incomplete",
        subject=left.path,
    )


def _folder_row(folder: str) -> RowData:
    return RowData(
        f"folder:{folder}",
        folder,
        "Slipstream lists the models in this folder and changes nothing",
        actions=(Action("forget", "Remove from the list"),),
        heading="Added folders",
        subject=folder,
    )


def disk_summary(inventory: Inventory) -> str:
    """Return the number of models, their size and the free space, in one line."""
    number = len(inventory.installed)
    taken = sum(model.size_bytes for model in inventory.installed)
    taken += sum(left.size_bytes for left in inventory.incomplete)
    models = "1 model" if number == 1 else f"{number} models"
    return f"{models}, {in_words.size(taken)} in total · {in_words.size(inventory.free_bytes)} free"


def candidate_rows(
    candidates: Sequence[Candidate],
    loaded: LoadedPair,
    *,
    inventory: Inventory,
    downloads: Sequence[Download],
    opened: Sequence[str] = (),
) -> tuple[RowData, ...]:
    """Return the drafters for the target, and why others cannot draft for it.

    `opened` are folders of drafters that the user chose.
    """
    if not candidates:
        return ()
    under_way = {download.repository.lower(): download for download in downloads}
    model = inventory.find(loaded.drafter)
    in_use = {loaded.drafter, *((model.name, model.path) if model else ())}
    known = {candidate.drafter for candidate in candidates}
    return (
        *(
            _candidate_row(candidate, in_use, under_way.get(candidate.drafter.lower()))
            for candidate in (*(() if "auto" in known else (_AUTOMATIC,)), *candidates)
        ),
        *(_opened_row(path, in_use=path in in_use) for path in opened if path not in known),
    )


def _opened_row(path: str, *, in_use: bool) -> RowData:
    """Return the row of a folder that the user opened and can remove from the list."""
    return RowData(
        f"opened:{path}",
        formatting.target_name(path),
        path,
        badge="In use" if in_use else "",
        actions=(*(() if in_use else (_USE,)), Action("forget", "Remove from the list")),
        heading="Chosen by you",
        subject=path,
    )


def _candidate_row(candidate: Candidate, in_use: set[str], download: Download | None) -> RowData:
    size = in_words.size(candidate.size_bytes) if candidate.size_bytes else ""
    kind = {"head": "A small network", "model": "A model"}.get(candidate.kind, "")
    gain = f"Expected {candidate.gain:.1f}× plain" if candidate.gain is not None else ""
    facts = [kind or KIND_NAMES.get(candidate.kind, ""), size, gain]
    if not candidate.tried:
        licence = "License: not known"
        if candidate.licence:
            licence = formatting.format_licence(candidate.licence)
        facts += ["" if candidate.installed else licence, "Not tested with Slipstream"]
    downloadable = candidate.obstacle == "not installed"
    reason = "" if candidate.works or downloadable else candidate.reason
    heading = "Available" if candidate.works else "Not available"
    action, badge, progress = _USE, "", None
    if downloadable:
        heading = "Available after download"
    if download is not None:
        badge, progress = _STATUS[download.status], _progress(download)
        action = _GETTING
    elif candidate.kind != "head" and not candidate.installed:
        action = Action("get", "Download", reason)
    elif not candidate.works:
        action = Action("use", "Use", reason)
    in_use_now = candidate.works and candidate.drafter in in_use
    return RowData(
        candidate.drafter,
        formatting.drafter_name(candidate.drafter),
        DOT.join(filter(None, facts)),
        remark=candidate.reason if candidate.works else "",
        reason=reason,
        badge="In use" if in_use_now else badge,
        progress=progress,
        actions=() if in_use_now else (action,),
        heading=heading,
    )


_STATUS = {
    "queued": "Waiting",
    "running": "Downloading",
    "paused": "Paused",
    "failed": "Failed",
    "done": "Done",
    "cancelled": "Cancelled",
}


def _progress(download: Download) -> float | None:
    if not download.total_bytes:
        return 0.0
    return min(1.0, download.done_bytes / download.total_bytes)
