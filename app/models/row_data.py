"""What stands in the rows of the Library: records as words, with what can be done with each.

Pure functions; knows records and how they are worded, and no widgets.
"""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from app.models import words
from app.models.downloads import PendingRequest
from app.models.library import Inventory
from models.records import Candidate, Download, Found, Incomplete, Installed

DOT = " · "
_NAME = re.compile(r"[\w.-]+/[\w.-]+(/[^/]+\.gguf)?", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Action:
    """Something that can be done: `name` is for the program, `text` for a person.

    `reason` says why it cannot be done; empty where it can.
    """

    name: str
    text: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RowData:
    """What a row shows. `heading` stands above it where the row before has another.

    `line` explains, `remark` adds to it. `reason` says why it cannot be chosen, or what is wrong,
    with a warning where it `warns`; `progress`, 0 to 1, is None where nothing goes on.
    """

    key: str
    title: str
    line: str = ""
    remark: str = ""
    badge: str = ""
    reason: str = ""
    warns: bool = False
    progress: float | None = None
    actions: tuple[Action, ...] = field(default=())
    heading: str = ""

    @property
    def reasons(self) -> str:
        """Why not all of it can be done; empty where all can."""
        refused = dict.fromkeys(action.reason for action in self.actions)
        return self.reason or " ".join(one for one in refused if one and one != self.line)

    @property
    def heard(self) -> str:
        """All of it, as it is read out."""
        name = f"{self.title}, not available" if self.reason and not self.warns else self.title
        parts = (name, self.badge, self.line, self.remark, self.reasons)
        return ". ".join(part.rstrip(".") for part in parts if part)


_GET, _USE = Action("get", "Get"), Action("use", "Use")


@dataclass(frozen=True, slots=True)
class Loaded:
    """What answers now: folders, and the drafter as `--drafter` takes it."""

    target: str = ""
    drafter: str = ""


def found_rows(
    found: Sequence[Found], *, shelf: Inventory, downloads: Sequence[Download]
) -> tuple[RowData, ...]:
    """What a search found, with the reason beside each that cannot be chosen."""
    going = {one.repository: one for one in downloads}
    return tuple(
        _found_row(one, shelf.find(one.repository), going.get(one.repository)) for one in found
    )


def named_row(
    name: str, found: Sequence[Found], *, shelf: Inventory, downloads: Sequence[Download]
) -> tuple[RowData, ...]:
    """A repository, or one GGUF file in it, that was named in full and that a search does not
    find; nothing where the name is none."""
    known = {one.repository.lower() for one in found}
    known |= {one.repository.lower() for one in downloads}
    if _NAME.fullmatch(name) is None or name.lower() in known or shelf.find(name) is not None:
        return ()
    line = "The search did not find it; it can be fetched by its name if the hub has it"
    return (RowData(name, name, line, actions=(_GET,)),)


def _found_row(found: Found, installed: Installed | None, download: Download | None) -> RowData:
    facts = [
        "" if found.size_bytes is None else words.size(found.size_bytes),
        f"{words.count(found.downloads)} downloads",
        found.licence or "licence not stated",
        "asks for consent first" if found.gated else "",
        f"updated {found.updated[:10]}" if found.updated else "",
    ]
    actions: tuple[Action, ...]
    badge, progress = "", None
    if installed is not None:
        badge, actions = "On this machine", _use_of(installed)
    elif download is not None:
        badge, progress = _standing(download), _progress(download)
        actions = (Action("get", "Get", "It is being downloaded: see Downloads."),)
    else:
        actions = (Action("get", "Get", found.reason),)
    return RowData(
        found.repository,
        found.repository,
        DOT.join(filter(None, facts)),
        badge=badge,
        reason="" if installed else found.reason,
        progress=progress,
        actions=actions,
    )


def download_rows(
    downloads: Sequence[Download], *, pending: dict[str, PendingRequest]
) -> tuple[RowData, ...]:
    """The queue, in order."""
    return tuple(_download_row(one, pending.get(one.repository)) for one in downloads)


def _download_row(download: Download, request: PendingRequest | None) -> RowData:
    wait = {"pause": "It is being paused.", "cancel": "It is being cancelled.", None: ""}[request]
    cancel = Action("cancel", "Cancel", wait)
    come = words.share(download.done_bytes, download.total_bytes) if download.total_bytes else ""
    line, first = "", Action("pause", "Pause", wait)
    match download.standing:
        case "running":
            rate = download.bytes_per_second
            left = download.seconds_left
            line = DOT.join(
                filter(
                    None,
                    (
                        come or "Asking for the sizes…",
                        f"{words.size(rate)}/s" if rate > 0 else "",
                        "" if left is None else words.left(left),
                    ),
                )
            )
        case "queued":
            line = DOT.join(filter(None, ("Waits for its turn", come)))
        case "paused":
            line = DOT.join(filter(None, ("Paused", come)))
            first = Action("resume", "Resume", wait)
        case "failed":
            line = DOT.join(filter(None, ("Stopped", come)))
            first = Action("resume", "Try again", wait)
        case "done":
            line = "Done"
    return RowData(
        download.repository,
        download.repository,
        wait or line,
        reason=f"{download.problem} {download.remedy}".strip(),
        warns=download.standing == "failed",
        progress=_progress(download),
        actions=(first, cancel),
    )


def disk_rows(shelf: Inventory, loaded: Loaded, *, now: float | None = None) -> tuple[RowData, ...]:
    """What is on this machine: models, what broken downloads left, folders that were added."""
    now = time.time() if now is None else now
    return (
        *(_installed_row(one, loaded, now) for one in shelf.installed),
        *(_incomplete_row(one) for one in shelf.incomplete),
        *(_folder_row(one) for one in shelf.folders),
    )


def _installed_row(one: Installed, loaded: Loaded, now: float) -> RowData:
    drafts = loaded.drafter in (one.path, one.name)
    used = "Answers now" if one.path == loaded.target else "Drafts now" if drafts else ""
    role = {"chat": "", "drafter": "made to draft", "head": "a drafter head"}[one.role]
    origin = {
        "starter": "the starter model" if one.role == "chat" else "comes with Slipstream",
        "hub": "from the hub",
        "imported": "imported",
        "folder": "in a folder of yours",
    }[one.origin]
    facts = [
        words.size(one.size_bytes),
        "" if one.quantization_bits is None else f"{one.quantization_bits}-bit",
        one.model_type,
        "" if one.context_length is None else words.context(one.context_length),
        role,
        origin,
        "" if one.last_used is None else f"used {words.ago(max(0.0, now - one.last_used))}",
    ]
    delete = ""
    if used:
        delete = "It is loaded: choose another model first."
    elif not one.removable:
        place = (
            "comes with Slipstream." if one.origin == "starter" else "lies in a folder of yours."
        )
        delete = f"It is not deleted here: it {place}"
    return RowData(
        f"model:{one.path}",  # several may have one name
        one.name,
        DOT.join(filter(None, facts)),
        badge=used,
        reason=f"{one.problem} {one.remedy}".strip(),
        warns=bool(one.problem),
        actions=(*_use_of(one, used=bool(used)), Action("delete", "Delete…", delete)),
        heading="Models",
    )


def _use_of(one: Installed, *, used: bool = False) -> tuple[Action, ...]:
    if one.role == "head":
        return ()  # it comes with its target
    reason = ""
    if one.problem:
        reason = one.problem
    elif used:
        reason = "It is loaded."
    elif one.role == "drafter":
        reason = "It was made to draft for others, not to answer."
    return (Action("use", "Use", reason),)


def _incomplete_row(one: Incomplete) -> RowData:
    return RowData(
        f"incomplete:{one.path}",
        one.name,
        f"{words.size(one.size_bytes)} that a broken download or import left",
        actions=(Action("clean", "Clean up"),),
        heading="Incomplete",
    )


def _folder_row(folder: str) -> RowData:
    return RowData(
        f"folder:{folder}",
        folder,
        "What lies here is offered too; nothing in it is changed or deleted",
        actions=(Action("forget", "Leave out"),),
        heading="Folders of yours",
    )


def disk_summary(shelf: Inventory) -> str:
    """All of it together, in a line."""
    number = len(shelf.installed)
    whole = sum(one.size_bytes for one in shelf.installed)
    whole += sum(one.size_bytes for one in shelf.incomplete)
    models = "1 model" if number == 1 else f"{number} models"
    return f"{models}, {words.size(whole)} in all · {words.size(shelf.free_bytes)} free"


def candidate_rows(
    candidates: Sequence[Candidate],
    loaded: Loaded,
    *,
    shelf: Inventory,
    downloads: Sequence[Download],
) -> tuple[RowData, ...]:
    """What can draft for the target, and why the rest cannot."""
    going = {one.repository: one for one in downloads}
    model = shelf.find(loaded.drafter)
    used = {loaded.drafter, *((model.name, model.path) if model else ())}
    return tuple(_candidate_row(one, used, going.get(one.drafter)) for one in candidates)


def _candidate_row(one: Candidate, used: set[str], download: Download | None) -> RowData:
    facts = [_KINDS.get(one.kind, ""), words.size(one.size_bytes) if one.size_bytes else ""]
    action, badge, progress = _USE, "", None
    gettable = can_be_fetched(one)
    reason = "" if one.works or gettable else one.reason
    heading = "These work" if one.works else "These do not"
    if gettable:
        heading = "These will do when they are here"
    if download is not None:
        badge, progress = _standing(download), _progress(download)
        action = Action("get", "Get", "It is being downloaded: see Downloads.")
    elif one.kind == "model" and not one.installed:
        action = Action("get", "Get", reason)
    elif not one.works:
        action = Action("use", "Use", reason)
    elif one.drafter in used:
        badge, action = "Drafts now", Action("use", "Use", "It drafts already.")
    return RowData(
        one.drafter,
        drafter_title(one),
        DOT.join(filter(None, facts)),
        remark=one.reason if one.works else "",
        reason=reason,
        badge=badge,
        progress=progress,
        actions=(action,),
        heading=heading,
    )


def can_be_fetched(one: Candidate) -> bool:
    """Whether it only has to be downloaded."""
    return one.obstacle == "not installed"


def drafter_title(one: Candidate) -> str:
    """What a drafter is called: a folder by its name."""
    own = {"lookup": "Lookup", "early-exit": "Early exit", "head": "Head", "none": "None"}
    return own.get(one.drafter) or words.short_name(one.drafter)


_KINDS = {"head": "A small network", "model": "A model"}


def _standing(download: Download) -> str:
    return {
        "queued": "Waits",
        "running": "Downloading",
        "paused": "Paused",
        "failed": "Stopped",
        "done": "Done",
    }[download.standing]


def _progress(download: Download) -> float | None:
    if not download.total_bytes:
        return 0.0
    return min(1.0, download.done_bytes / download.total_bytes)
