"""What is said of the pairs of the catalog: records as words. Knows no widgets."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.models import words
from app.models.library import Inventory
from app.models.row_data import DOT, Action, Loaded, RowData
from models.records import Download, Offer


@dataclass(frozen=True, slots=True)
class OfferState:
    """An offer, and how far it is: `downloads` are those of its repositories, `wanted` whether
    it will be used as soon as they are done, `used` whether it answers now."""

    offer: Offer
    downloads: tuple[Download, ...] = ()
    wanted: bool = False
    used: bool = False

    @property
    def key(self) -> str:
        return offer_key(self.offer)

    @property
    def going(self) -> bool:
        return any(one.standing in ("queued", "running") for one in self.downloads)

    @property
    def progress(self) -> float | None:
        """0 to 1; None where nothing is being downloaded."""
        if not self.downloads:
            return None
        whole = sum(one.total_bytes for one in self.downloads)
        return sum(one.done_bytes for one in self.downloads) / whole if whole else 0.0

    @property
    def state(self) -> str:
        """How it stands, in a few words; empty where nothing goes on."""
        if not self.downloads:
            return ""
        done = sum(one.done_bytes for one in self.downloads)
        whole = sum(one.total_bytes for one in self.downloads)
        come = words.share(done, whole) if whole else "asking for the sizes…"
        if failed := [one for one in self.downloads if one.standing == "failed"]:
            return f"Stopped: {failed[0].problem} {failed[0].remedy}"
        if not self.going:
            return f"Paused{DOT}{come}"
        left = [one.seconds_left for one in self.downloads if one.seconds_left is not None]
        return DOT.join(("Downloading", come, *(words.left(sum(left)) for _ in left[:1])))

    @property
    def action(self) -> Action:
        """What its button does."""
        if self.used:
            return Action("use", "In use", "It answers now.")
        if self.offer.reason:
            return Action("get", "Get and use", self.offer.reason)
        if self.going:
            then = "It will be used when it is here." if self.wanted else "See Downloads."
            return Action("get", "Downloading…", f"It is being downloaded. {then}")
        if self.downloads:
            return Action("get", "Go on and use")
        return Action("use", "Use") if self.offer.installed else Action("get", "Get and use")


def offer_states(
    offers: Sequence[Offer],
    *,
    shelf: Inventory,
    downloads: Sequence[Download],
    loaded: Loaded,
    wanted: str,
) -> tuple[OfferState, ...]:
    """Each offer with how far it is. `wanted` is the key of that which will be used."""
    states = []
    for offer in offers:
        own = tuple(one for one in downloads if one.repository in (offer.target, offer.drafter))
        installed = shelf.find(offer.target)
        used = installed is not None and installed.path == loaded.target
        states.append(OfferState(offer, own, offer_key(offer) == wanted, used))
    return tuple(states)


def offer_key(offer: Offer) -> str:
    """What tells offers apart: a target may be there with two drafters."""
    return f"{offer.target}+{offer.drafter}"


def offer_title(offer: Offer) -> str:
    name = words.short_name(offer.target)
    return f"{name} with {words.short_name(offer.drafter)}" if offer.drafter else name


def offer_facts(offer: Offer) -> str:
    """Sizes and licence, in a line."""
    fetch = words.size(offer.download_bytes) if offer.download_bytes else ""
    return DOT.join(
        filter(
            None,
            (
                "on this machine" if offer.installed else fetch and f"{fetch} to download",
                words.context(offer.context),
                offer.licence,
                "" if offer.verified else "not checked on the hub",
            ),
        )
    )


def drafters_line(offer: Offer) -> str:
    """What can draft for it, as far as the catalog knows."""
    names = {"model": "a smaller model", "head": "a trained head", "early-exit": "its own layers"}
    kinds = [names.get(kind, kind) for kind in offer.drafter_kinds]
    return f"Drafters: {', '.join(kinds)}" if kinds else ""


def memory_line(offer: Offer) -> str:
    """What it takes of what there is."""
    needed, available = words.size(offer.needed_bytes), words.size(offer.available_bytes)
    return f"Needs {needed} of the {available} of memory that models can use here"


def offer_rows(states: Sequence[OfferState]) -> tuple[RowData, ...]:
    """All of these, as they come: the better first, what does not fit last."""
    return tuple(_offer_row(state) for state in states)


def _offer_row(state: OfferState) -> RowData:
    offer = state.offer
    needs = "" if offer.reason else f"Needs {words.size(offer.needed_bytes)} of memory{DOT}"
    return RowData(
        state.key,
        offer_title(offer),
        f"Good for {offer.good_for}",
        remark=state.state or needs + offer_facts(offer),
        badge="Answers now" if state.used else "",
        reason=offer.reason,
        progress=state.progress,
        actions=(state.action,),
        heading=f"For {offer.memory_class_gb} GB of memory and more",
    )
