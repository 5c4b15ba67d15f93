"""Draws records of models in a terminal: tables of usable models, and a reason for each unusable
one.

Knows the records and a console, not where the records come from. Texts from the hub and from model
files are cleaned of control characters. In place of an empty list a line says what to do.
"""

import time
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from models.in_words import ago, one_line, size
from models.memory.shares import Plan
from models.records import (
    KIND_NAMES,
    PROGRAM_NAMES,
    Candidate,
    Download,
    Fit,
    Installed,
    Inventory,
    PairOffer,
    SearchResult,
)

_PLAIN_KINDS = ("head", "model")  # kinds that are not shown


def show_local(console: Console, found: Inventory) -> None:
    """Draw installed models, downloads and incomplete files."""
    usable = [model for model in found.installed if not model.problem]
    if usable:
        table = _table("On this machine", "", "role", "size", "bits", "context", "last used")
        for model in usable:
            table.add_row(
                _name(model.name),
                _role(model),
                size(model.size_bytes),
                "" if model.role == "head" else str(model.quantization_bits or "float"),
                f"{model.context_length:,}" if model.context_length else "",
                "unknown" if model.last_used is None else ago(time.time() - model.last_used),
            )
        console.print(table)
    if not any(model.role == "chat" for model in found.installed):
        _line(console, "No chat model is installed yet.", style="bold")
        _line(console, "→ To see models for this machine: slipstream models pair", indent=2)
    for broken in (model for model in found.installed if model.problem):
        _no(console, broken.name, f"{broken.problem} {broken.remedy}", size(broken.size_bytes))
    for download in found.downloads:
        show_download(console, download)
    if any(download.status != "running" for download in found.downloads):
        _line(console, "→ To resume downloads: slipstream models pull", indent=2)
    for rest in found.incomplete:
        delete = f"slipstream models remove --incomplete {rest.name}"
        _no(console, rest.name, f"Incomplete. Download it again, or delete it: {delete}",
            size(rest.size_bytes))  # fmt: skip
    for folder in found.folders:
        _line(console, f"Added folder: {folder}", style="dim")
    sizes = [model.size_bytes for model in found.installed]
    sizes += [rest.size_bytes for rest in found.incomplete]
    free = size(found.free_bytes)
    _line(console, f"Models take {size(sum(sizes))}; {free} are free on the disk.", style="dim")


def _role(model: Installed) -> str:
    role = _kind(model.drafter_kind) or model.role
    program = PROGRAM_NAMES.get(model.origin)
    return f"{role} ({program}'s)" if program else role


def _kind(kind: str) -> str:
    """Return the kind of a published drafter; "" for a head or a model."""
    return "" if kind in _PLAIN_KINDS else KIND_NAMES.get(kind, "")


def show_download(console: Console, download: Download) -> None:
    """Draw an entry of the queue."""
    mark, style = {
        "done": ("✓", "green"),
        "running": ("↓", "bold"),
        "queued": ("…", "dim"),
        "paused": ("‖", "bold yellow"),
        "failed": ("✗", "bold red"),
        "cancelled": ("✗", "dim"),
    }[download.status]
    total = f" of {size(download.total_bytes)}" if download.total_bytes else ""
    facts = f"{download.status}, {size(download.done_bytes)}{total}"
    _entry(console, mark, style, download.repository, facts)
    if download.problem:
        _line(console, f"→ {download.problem} {download.remedy}", indent=2)


def show_found(console: Console, text: str, found: Sequence[SearchResult]) -> None:
    """Draw the results of a search; unusable ones come last, each with its reason."""
    usable = [result for result in found if not result.reason]
    if not found:
        _line(console, f"The hub has no model for {text!r}.", style="bold")
        _line(console, "→ Search for a part of the name, or: slipstream models pair", indent=2)
    elif usable:
        table = _table("On the hub", "", "size", "downloads", "licence", "updated")
        for result in usable:
            taken = size(result.size_bytes) if result.size_bytes is not None else "?"
            table.add_row(
                _name(result.repository), taken, f"{result.downloads:,}", _name(result.licence),
                result.updated[:10],
            )  # fmt: skip
        console.print(table)
    for result in (result for result in found if result.reason):
        _no(console, result.repository, result.reason)
    if usable:
        _line(console, f"→ slipstream models pull {usable[0].repository}", style="dim")


def show_offers(console: Console, offers: Sequence[PairOffer]) -> None:
    """Draw the catalog's pairs for this machine: the recommended few, then the others."""
    for offer in offers:
        if offer.recommended or offer.choice:
            _chosen(console, offer)
    others = [offer for offer in offers if not offer.recommended and not offer.choice]
    if others:
        _line(console, "Also in the catalog", style="bold")
    for offer in others:
        if offer.reason:
            _no(console, offer.target, offer.reason)
            continue
        fetched = "installed" if offer.installed else f"{size(offer.download_bytes)} to download"
        together = f" on {offer.macs} Macs" if offer.macs > 1 else ""
        speed = f"{_speed(offer)}, " if offer.tokens_per_second else ""
        facts = f"{speed}needs {size(offer.needed_bytes)}{together}, {fetched}"
        _entry(console, "✓", "green", offer.target, facts)
        drafter = f"with {offer.drafter}; " if offer.drafter else ""
        _line(console, f"{drafter}{offer.good_for}", indent=2)
    if any(not offer.verified for offer in offers):
        _line(console, "Names and sizes are from the catalog; the hub may differ.", style="dim")


def show_candidates(console: Console, target: str, candidates: Sequence[Candidate]) -> None:
    """Draw every way to draft for a target, best first, each with its reason."""
    _line(console, f"Drafters for {target}", style="bold")
    for candidate in candidates:
        facts = [_kind(candidate.kind)] if _kind(candidate.kind) else []
        facts += [] if candidate.installed else ["not installed"]
        if not candidate.tried:
            facts.append("untested")
        if candidate.drafter != candidate.kind and not candidate.installed:
            facts.append(f"licence {one_line(candidate.licence) or 'unknown'}")
        if candidate.works and candidate.cost_ratio is not None:
            share = f"{candidate.cost_ratio:.0%} of a pass".replace("%", " %")
            facts.append(f"a drafted token costs {share if candidate.cost_ratio else 'nothing'}")
        if candidate.gain is not None:
            facts.append(f"expected {candidate.gain:.2f} times plain")
        mark, style = ("✓", "green") if candidate.works else ("✗", "bold red")
        _entry(console, mark, style, candidate.drafter, ", ".join(facts))
        _line(console, candidate.reason, indent=2)
    if not candidates:
        _line(console, "None is published. lookup needs no model.", indent=2)
    absent = [c for c in candidates if c.obstacle == "not installed" and c.gain]
    if absent and not any(candidate.kind == "auto" for candidate in candidates):
        best = max(absent, key=lambda candidate: candidate.gain or 0.0)
        _line(console, f"→ To get both: slipstream models pull {target} {best.drafter}", indent=2)
    elif not any(candidate.works for candidate in candidates):
        _line(console, "→ To answer without a drafter: --drafter none", indent=2)


def show_fit(console: Console, fit: Fit) -> None:
    """Draw the memory that a pair needs, and its parts."""
    mark, style = ("✓", "green") if fit.fits else ("✗", "bold red")
    _entry(console, mark, style, fit.pair, f"at {fit.context:,} tokens")
    table = Table(box=None, padding=(0, 1, 0, 0), show_header=False)
    table.add_column("", min_width=20)
    table.add_column("", justify="right", no_wrap=True)
    parts = (
        ("weights", fit.weights_bytes),
        ("cache", fit.cache_bytes),
        ("drafter's weights", fit.drafter_weights_bytes),
        ("drafter's cache", fit.drafter_cache_bytes),
        ("working memory", fit.working_bytes),
    )
    for name, size_bytes in parts:
        if size_bytes:
            table.add_row(f"  {name}", size(size_bytes))
    table.add_row("  needed", Text(size(fit.needed_bytes), style="bold"))
    table.add_row("  available", size(fit.available_bytes))
    console.print(table)
    _line(console, fit.reason, indent=2)
    if fit.largest_context:
        _line(console, f"The longest context that fits: {fit.largest_context:,} tokens.", indent=2)


def show_plan(console: Console, macs: Sequence[str], made: Plan) -> None:
    """Draw how several Macs would split a target, and the memory that each needs."""
    first = made.fits[0]
    mark, style = ("✓", "green") if made.fits_all else ("✗", "bold red")
    _entry(console, mark, style, first.pair, f"at {first.context:,} tokens")
    table = _table("", "", "layers", "needed", "available", "")
    layers = [f"{begin}–{end - 1}" for begin, end in made.layers] or ["a part of all"] * len(macs)
    for name, own, fit in zip(macs, layers, made.fits, strict=True):
        figures = size(fit.needed_bytes), size(fit.available_bytes)
        table.add_row(_name(name), own, *figures, "" if fit.fits else "too little")
    console.print(table)
    _line(console, f"It would be {made.in_words}.", indent=2)
    longest = min(fit.largest_context for fit in made.fits)
    if longest:
        _line(console, f"The longest context that fits: {longest:,} tokens.", indent=2)


_CHOICES = {
    "best": "Best that fits",
    "quickest": "Quickest",
    "smallest": "Smallest",
    "": "Recommended",
}


def _chosen(console: Console, offer: PairOffer) -> None:
    """Draw a recommended pair, with its figures and their sources."""
    console.print(
        Text.assemble(
            (f"{_CHOICES[offer.choice]}: ", "bold green"), (one_line(offer.target), "bold")
        ),
        highlight=False,
        soft_wrap=True,
    )
    if offer.note:
        _line(console, offer.note, style="bold yellow", indent=2)
    drafter = f"with {offer.drafter}; " if offer.drafter else ""
    _line(console, f"{drafter}good for {offer.good_for}", indent=2)
    if offer.abilities:
        _line(console, ", ".join(offer.abilities), indent=2)
    if offer.tokens_per_second:
        _line(console, _speed(offer), indent=2)
    long = f", {size(offer.long_bytes)} at 32,768" if offer.long_bytes else ""
    needs = f"needs {size(offer.needed_bytes)}{long}, of {size(offer.available_bytes)} available"
    _line(console, needs, indent=2)
    if offer.reason:
        _line(console, f"→ {offer.reason}", indent=2)
    elif offer.installed:
        drafter = f" --drafter {offer.drafter}" if offer.drafter else ""
        _line(console, f"→ slipstream chat --target {offer.target}{drafter}", indent=2)
    else:
        words = f"{offer.target} {offer.drafter}".strip()
        _line(
            console, f"→ slipstream models pull {words}  ({size(offer.download_bytes)})", indent=2
        )
    for source in offer.sources:
        _line(console, source, style="dim", indent=4)


def _speed(offer: PairOffer) -> str:
    """Return the expected speed: "about 24 tokens a second, 2.7 times plain"."""
    plain = f", {offer.gain:.1f} times plain" if offer.gain and offer.drafter else ", plain"
    return f"about {offer.tokens_per_second:.0f} tokens a second{plain}"


def _table(title: str, *headings: str) -> Table:
    """Return a table whose first column folds if the console is narrow; figures do not fold."""
    table = Table(title=title, title_justify="left", title_style="bold", box=None,
                  padding=(0, 2, 0, 0), header_style="dim")  # fmt: skip
    for number, heading in enumerate(headings):
        figures = heading in ("size", "bits", "context", "downloads", "needed", "available")
        table.add_column(
            heading,
            overflow="fold",
            justify="right" if figures else "left",
            no_wrap=figures,
            min_width=20 if number == 0 else None,
        )
    return table


def _name(text: str) -> Text:
    """Return someone else's text in one clean line."""
    return Text(one_line(text))


def _no(console: Console, name: str, reason: str, facts: str = "") -> None:
    _entry(console, "✗", "bold red", name, facts)
    _line(console, f"→ {reason}", indent=2)


def _entry(console: Console, mark: str, style: str, name: str, facts: str) -> None:
    line = Text.assemble(
        (mark, style), " ", (one_line(name), "bold"), f"  {facts}" if facts else ""
    )
    console.print(line, highlight=False, soft_wrap=True)


def _line(console: Console, text: str, *, style: str = "", indent: int = 0) -> None:
    console.print(Text(" " * indent + one_line(text)), style=style, highlight=False, soft_wrap=True)
