"""Compares a drafter in 4 bits with the same in 8 bits, by the built-in prompts.

Knows sessions and prompts; the rule and the file are for `models.drafters.enough_bits`.
"""

from collections.abc import Callable
from dataclasses import replace

from engine.bench.prompts import BUILTIN
from engine.conversation.session import Session
from engine.conversation.stats import tally
from engine.device import backend
from engine.draft_length.policy import Fixed
from engine.request import ChatMessage, Request, Sampling
from models.drafters.enough_bits import FEWEST, keep_rates
from models.drafters.folders import USUAL
from models.installed.resolve import Drafters, resolve_drafters

_REQUEST = Request(sampling=Sampling(), max_tokens=48)
_DRAFTED = 4


def try_bits(
    session: Session,
    *,
    progress: Callable[[float], None],
    cancelled: Callable[[], bool] = lambda: False,
) -> None:
    """Let each drafter of a session draft for greedy answers in 4 bits and in 8, keep the
    acceptance rates, and draft in the better bits. `progress` gets the share that is done.

    A drafter that was published in few bits is not tried, nor any on a backend that expands all
    weights. A trial that is `cancelled` changes nothing.
    """
    target, drafters = session.target, session.drafters
    for part in drafters.parts if not backend().expands else ():
        folder, rates = part.folder, list[float]()
        if folder is None or folder.is_packed:
            continue
        for bits in (FEWEST, USUAL):
            held = replace(part, folder=replace(folder, bits=bits))
            trial = Session(target, drafter=Drafters(part.name, (held,)), policy=Fixed(_DRAFTED))
            accepted = proposed = 0
            for number, (_, text) in enumerate(BUILTIN):
                progress((len(rates) + number / len(BUILTIN)) / 2)
                question = [ChatMessage("user", text)]
                stats = tally(trial.answer(question, _REQUEST, cancelled=cancelled))
                accepted, proposed = accepted + stats.accepted, proposed + stats.proposed
            rates.append(accepted / max(proposed, 1))
        if not cancelled():
            keep_rates(target.folder, folder, rates)
    found = resolve_drafters(drafters.name, target.folder)
    if found != drafters:
        session.use_drafter(found)
