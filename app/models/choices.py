"""What can be chosen in the pair bar: models and drafters, each with a line or a reason.

Knows records of models; not where they come from.
"""

from collections.abc import Sequence

from app.models.choice_box import Choice
from app.models.contents import can_be_fetched
from app.models.loader import target_name
from models.records import Candidate, Installed

_OWN = (
    Choice("auto", "Automatic", "The best of what works, as it pays"),
    Choice("lookup", "Lookup", "Copies what followed the same words before"),
    Choice("head", "Head", "A small network trained for this target"),
    Choice("early-exit", "Early exit", "The target\u2019s own first layers"),
    Choice("none", "None", "Plain decoding, to compare with"),
)


def target_choices(
    installed: Sequence[Installed], *, starter: Choice, opened: Sequence[str]
) -> tuple[Choice, ...]:
    """The starter model, what a person `opened` (paths), and what is installed.

    Models that are made to draft are not offered.
    """
    known = {one.path: one for one in installed}
    choices = {starter.value: starter}
    for path in opened:
        if path not in known:
            choices[path] = Choice(path, target_name(path), path.rpartition("/")[0], tip=path)
    for one in installed:
        if one.role == "chat" and one.origin != "starter":
            bits = "" if one.quantization_bits is None else f"{one.quantization_bits}-bit, "
            choices[one.path] = Choice(
                one.path,
                one.name.rpartition("/")[2],
                f"{bits}{one.name.rpartition('/')[0] or one.model_type}",
                reason=f"{one.problem} {one.remedy}".strip(),
                tip=f"{one.name}\n{one.path}",
            )
    return tuple(choices.values())


def drafter_choices(
    candidates: Sequence[Candidate], *, opened: Sequence[str] = ()
) -> tuple[Choice, ...]:
    """What can draft, and why the rest cannot; `opened` are folders that a person chose before.

    Without candidates it is not known yet what works: the engine will tell.
    """
    told = {one.drafter: one for one in candidates}
    choices: dict[str, Choice] = {}
    for own in _OWN:
        candidate = told.pop(own.value, None)
        reason = candidate.reason if candidate is not None and not candidate.works else ""
        choices[own.value] = Choice(own.value, own.name, own.line, reason)
    for one in told.values():
        reason = "" if one.works else one.reason
        if can_be_fetched(one):
            reason = "Not on this machine: see \u201cAll drafters\u201d below."
        choices[one.drafter] = Choice(
            one.drafter, target_name(one.drafter), one.reason, reason, tip=one.drafter
        )
    for path in opened:
        if path not in choices:
            choices[path] = Choice(path, target_name(path), "A drafter that you chose", tip=path)
    return tuple(choices.values())
