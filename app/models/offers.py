"""The catalog's pairs as plain values: their progress and their texts.

Pure functions from records to text; knows no widgets.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from app.models import formatting
from app.models.row_data import DOT, Action, LoadedPair, RowData
from models import in_words
from models.records import KIND_NAMES, Download, Inventory, PairOffer

_FITTING, _LARGER = "Also for this machine", "For more memory"
_BITS = re.compile(r"(\d+)-?bit", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class OfferState:
    """An offer and its progress. `downloads` belong to its repositories. `pending`: it will be
    loaded as soon as they finish. `in_use`: its target is loaded."""

    offer: PairOffer
    downloads: tuple[Download, ...] = ()
    pending: bool = False
    in_use: bool = False

    @property
    def key(self) -> str:
        return offer_key(self.offer)

    @property
    def downloading(self) -> bool:
        return any(download.status in ("queued", "running") for download in self.downloads)

    @property
    def failed(self) -> Download | None:
        """The first of its downloads that failed."""
        return next((one for one in self.downloads if one.status == "failed"), None)

    @property
    def progress(self) -> float | None:
        """From 0 to 1; None if nothing is being downloaded."""
        if not self.downloads:
            return None
        done, total = self._bytes
        return done / total if total else 0.0

    @property
    def status_text(self) -> str:
        """Its progress in a few words; empty if nothing is under way."""
        if not self.downloads:
            return ""
        if failed := self.failed:
            return f"Failed: {failed.problem} {failed.remedy}"
        done, total = self._bytes
        share = in_words.share(done, total) if total else "reading file sizes…"
        if not self.downloading:
            return f"Paused{DOT}{share}"
        rate = sum(download.bytes_per_second for download in self.downloads)
        known = rate and all(download.total_bytes for download in self.downloads)
        left = in_words.left((total - done) / rate) if known else ""
        return DOT.join(filter(None, ("Downloading", share, left)))

    @property
    def action(self) -> Action:
        """The action of its button."""
        if self.in_use:
            return Action("use", "In use", "This pair is already in use.")
        if self.offer.reason:
            return Action("get", "Download and use", self.offer.reason)
        if self.downloading:
            then = "It will be used when it has finished." if self.pending else "See Downloads."
            return Action("get", "Downloading…", f"It is already downloading. {then}")
        if self.downloads:
            return Action("get", "Resume and use")
        return Action("use", "Use") if self.offer.installed else Action("get", "Download and use")

    @property
    def _bytes(self) -> tuple[int, int]:
        """The bytes of its downloads: done, and total."""
        return (
            sum(download.done_bytes for download in self.downloads),
            sum(download.total_bytes for download in self.downloads),
        )


def offer_states(
    offers: Sequence[PairOffer],
    *,
    inventory: Inventory,
    downloads: Sequence[Download],
    loaded: LoadedPair,
    pending: str,
) -> tuple[OfferState, ...]:
    """Return each offer with its progress. `pending` is the key of the offer that will be
    loaded."""
    states = []
    for offer in offers:
        names = offer.target.lower(), offer.drafter.lower()
        own = tuple(one for one in downloads if one.repository.lower() in names)
        installed = inventory.find(offer.target)
        in_use = installed is not None and installed.path == loaded.target
        states.append(OfferState(offer, own, offer_key(offer) == pending, in_use))
    return tuple(states)


def offer_key(offer: PairOffer) -> str:
    """Return a key that is unique: the catalog may pair one target with two drafters."""
    return f"{offer.target}+{offer.drafter}"


CHOICES = {
    "best": "Best that fits this machine",
    "quickest": "Quickest",
    "smallest": "Smallest",
    "": "Recommended for this machine",
}


def speed_line(offer: PairOffer) -> str:
    """Return the expected speed: "About 24 tokens a second · 2.7× plain"; empty if not known."""
    if not offer.tokens_per_second:
        return ""
    speed = f"About {offer.tokens_per_second:.0f} tokens a second"
    gain = f"{offer.gain:.1f}× plain" if offer.gain and offer.drafter else "without drafts"
    return DOT.join((speed, gain))


def sources_text(offer: PairOffer) -> str:
    """Return where the figures of an offer come from, a line each."""
    return "\n".join(("Expected from published figures, not measured here:", *offer.sources))


def offer_title(offer: PairOffer) -> str:
    name = formatting.spoken_name(offer.target)
    drafter = formatting.spoken_name(offer.drafter)
    return f"{name} with {drafter}" if offer.drafter else name


def offer_facts(offer: PairOffer) -> str:
    """Return the remaining download, the context and the licence, in one line."""
    download = in_words.size(offer.download_bytes) if offer.download_bytes else ""
    bits = _BITS.search(offer.target)
    facts = (
        "On this machine" if offer.installed else download and f"{download} to download",
        f"{bits[1]}-bit" if bits else "",
        formatting.format_context(offer.context),
        DOT.join(offer.abilities),
        formatting.format_licence(offer.licence),
        "" if offer.verified else "Not verified on the hub",
    )
    return DOT.join(filter(None, facts))


def drafters_line(offer: PairOffer) -> str:
    """Return a line about what drafts: the draft model of the pair, else what the catalog knows."""
    if offer.drafter:
        return f"Draft model: {formatting.spoken_name(offer.drafter)}"
    names = {"model": "a smaller model", "head": "a trained head", "early-exit": "its own layers"}
    kinds = [names.get(kind) or KIND_NAMES.get(kind, kind) for kind in offer.drafter_kinds]
    return f"Drafts by: {', '.join(kinds)}" if kinds else ""


def memory_line(offer: PairOffer) -> str:
    """Return a line about the memory it needs, of the memory of this machine."""
    available = in_words.size(offer.available_bytes)
    place = "these Macs together" if offer.macs > 1 else "this machine"
    long = f", {in_words.size(offer.long_bytes)} at 32,768" if offer.long_bytes else ""
    return f"{_needs(offer)}{long}, of the {available} that models can use on {place}"


def _needs(offer: PairOffer) -> str:
    """Return the memory it needs, and its context."""
    as_float = ", with its weights unpacked" if offer.expanded else ""
    together = f"Fits on {offer.macs} Macs{DOT}" if offer.macs > 1 else ""
    needed = f"{in_words.size(offer.needed_bytes)} of memory at {offer.needed_context:,} tokens"
    return f"{together}Needs {needed}{as_float}"


def offer_rows(states: Sequence[OfferState]) -> tuple[RowData, ...]:
    """Return a row for each offer, in the given order, those for more memory last."""
    rows = [_offer_row(state) for state in states]
    return tuple(sorted(rows, key=lambda row: row.heading == _LARGER))


def _offer_row(state: OfferState) -> RowData:
    offer = state.offer
    needs = "" if offer.reason else f"{_needs(offer)}{DOT}"
    return RowData(
        state.key,
        offer_title(offer),
        f"Good for {offer.good_for}",
        remark=state.status_text
        or DOT.join(filter(None, (speed_line(offer), needs + offer_facts(offer)))),
        badge="In use" if state.in_use else "",
        reason=offer.reason or offer.caution,
        warns=not offer.reason,
        progress=state.progress,
        actions=(state.action,),
        heading=_LARGER if offer.reason or offer.caution else _FITTING,
    )
