"""How long things take with a large model on a device beside the host, and what waits for what."""

import time
from contextlib import contextmanager
from dataclasses import asdict
from statistics import median
from unittest import mock

import mlx.core as mx

import engine.core.loop
import engine.device
from engine.core.loop import speculate
from engine.core.rounds import RoundDraft, RoundVerdict
from engine.draft_length.calibrate import calibrate
from engine.draft_length.policy import Fixed, FixedTree
from engine.drafters import NoDrafter
from tests.support.engine.helpers import read_prompt, task
from tests.support.engine.slow_passes import seconds_left
from tests.support.engine.waits import Waits


def costs(target, drafter):
    """What the engine's own calibration says that passes and drafts cost, in seconds."""
    decoder = target.decoder()
    measured = calibrate(decoder, drafter(decoder))
    return None if measured is None else asdict(measured)


def left_when_shown(target, drafter, prompt, *, count):
    """How much of a pass is left when a draft is shown, and of the next one when a plain token is:
    milliseconds, with what the pass takes."""
    found = {}
    for name, length in [("plain", 0), ("drafted", 4)]:
        decoder, tokens = target.decoder(), list(prompt)
        using = drafter(decoder) if length else NoDrafter()
        read_prompt(decoder, using, tokens)
        left, seconds = [], []
        for item in speculate(decoder, using, Fixed(length), tokens, task(count)):
            if isinstance(item, RoundDraft) or not length:
                left.append(seconds_left())
            if isinstance(item, RoundVerdict):
                seconds.append(item.verify_seconds)
        found[name] = {"left": _ms(left[1:-1]), "verdict charged": _ms(seconds[1:])}
    return found


def trees(target, script, *, start):
    """What a verdict on a tree takes, against one on a chain of as many tokens: milliseconds."""
    found = {}
    for size in (4, 8, 16, 24):
        policies = {"chain": Fixed(size), "tree": FixedTree(size)}
        for name, policy in policies.items():
            decoder, tokens = target.decoder(), list(script[:start])
            known = target.drafters(script)["known"](decoder)
            read_prompt(decoder, known, tokens)
            items = speculate(decoder, known, policy, tokens, task(len(script) - start))
            each = [i for i in items if isinstance(i, RoundVerdict) and len(i.p) == size]
            if len(each) > 2:
                found[f"{name} of {size}"] = _ms([i.verify_seconds for i in each[1:]])
    return found


def host(target, drafter, prompt, *, count):
    """What the host does in a drafted round while the device has nothing to do: from the verdict's
    arrival to the next thing that is begun. And how often a round waits."""
    decoder, tokens = target.decoder(), list(prompt)
    using = drafter(decoder)
    read_prompt(decoder, using, tokens)
    with _between() as samples:
        for _ in speculate(decoder, using, Fixed(4), tokens, task(count)):
            pass
    rounds = 0
    with Waits().counted() as waits:
        for item in speculate(decoder, using, Fixed(4), tokens, task(count)):
            rounds += isinstance(item, RoundVerdict)
    return {
        "wall": _ms([wall for wall, _ in samples[2:]]),
        "thread": _ms([thread for _, thread in samples[2:]]),
        "waits a round": waits.fetches / rounds,
        "waits elsewhere": len(waits.elsewhere),
    }


@contextmanager
def _between():
    """Wall and thread seconds from each verdict to what is begun next."""
    samples = []
    arrived = []
    fetch, begin = engine.device.fetch, mx.async_eval

    def fetching(*arrays):
        values = fetch(*arrays)
        if len(arrays) > 3:  # a verdict: a draft and a plain token have fewer
            arrived[:] = [(time.perf_counter(), time.thread_time())]
        return values

    def beginning(*arrays):
        for wall, thread in arrived:
            samples.append((time.perf_counter() - wall, time.thread_time() - thread))
        arrived.clear()
        begin(*arrays)

    with (
        mock.patch.object(engine.core.loop, "fetch", fetching),
        mock.patch.object(mx, "async_eval", beginning),
    ):
        yield samples


def _ms(seconds):
    """In milliseconds."""
    each = sorted(1000 * s for s in seconds)
    if not each:
        return {"count": 0}
    return {
        "median": round(median(each), 3),
        "least": round(each[0], 3),
        "nine of ten below": round(each[int(0.9 * len(each))], 3),
        "count": len(each),
    }
