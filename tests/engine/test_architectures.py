"""Greedy decoding with drafts writes the text of plain decoding, on every architecture that
mlx-lm's own tests build.

`tests/data/architectures.json` has their configurations, made smaller. A random model of each
writes a plain text. Then it writes the text with drafts that are partly wrong: in chains, in trees
where it can read them, and again from the middle, after a rewind. This happens on the CPU, and as
on a Mac. A difference is a near tie (`engine/near_ties.py`) or a fault.
"""

import functools
import json
import pkgutil
from collections import Counter
from pathlib import Path

import mlx_lm.models
import pytest
from mlx_lm.utils import MODEL_REMAPPING

from engine.device import CPU
from engine.draft_length.policy import Fixed, FixedTree
from tests.support.engine.backends import computing_as, on_a_mac
from tests.support.engine.helpers import PROMPT, decoder, now_and_then, task, write
from tests.support.engine.plain_texts import PlainTexts
from tests.support.engine.tiny import build
from tests.support.engine.trees import Guessing
from tests.support.mostly_slow import mostly_slow

COUNT = 24
LENGTH = 5  # of chains
TREE = 8  # tokens
ROWS = (2, 6, 9)  # of a pass, by which a Mac rounds
VOCABULARY = 128

_DATA = Path(__file__).parents[1] / "data" / "architectures.json"
_LISTED = json.loads(_DATA.read_text())
CONFIGURATIONS, LEFT_OUT = _LISTED["configurations"], _LISTED["left out"]  # and why
QUICK = ("afm7", "mamba2", "falcon_h1 2")
NAMES = [name for name in CONFIGURATIONS if name not in LEFT_OUT]


@functools.lru_cache(maxsize=1)
def model_of(name):
    sizes = CONFIGURATIONS[name]
    return build(sizes["model_type"], sizes=sizes, vocabulary=VOCABULARY)


def written(make, plain):
    """Each text that is written with drafts that are partly wrong, with the number of accepted
    tokens: as a chain, as trees if the model reads them, and each again from the middle."""
    script, middle = [*PROMPT, *plain], len(PROMPT) + COUNT // 2
    policies = [Fixed(LENGTH), *([FixedTree(TREE)] if make().branches else [])]
    for number, policy in enumerate(policies):
        target, tokens = make(), list(PROMPT)
        for _ in range(2):
            drafter = Guessing(script, vocabulary=VOCABULARY, wrong=now_and_then(number))
            run = write(target, drafter, policy, tokens, task(len(script) - len(tokens)))
            yield tokens[len(PROMPT) :], run.accepted
            del tokens[middle:]
            target.rewind(middle)


def compared(name):
    """How many texts were written, with how many accepted tokens, near ties and differences."""
    make = functools.partial(decoder, model_of(name), block=256)
    texts, found = PlainTexts(make, rows=ROWS), Counter[str]()
    plain = texts.plain(PROMPT, COUNT).text
    for text, accepted in written(make, plain):
        found["texts"] += 1
        found["accepted"] += accepted
        if text != plain:
            for fork in texts.forks(PROMPT, text, texts.roundings(PROMPT, plain)):
                found["near ties" if fork.near_tie else "differences"] += 1
    return found


@pytest.mark.parametrize("name", mostly_slow(NAMES, quick=QUICK))
def test_only_near_ties_differ(name, capsys):
    with computing_as(CPU):
        on_the_cpu = compared(name)
    with on_a_mac():
        as_on_a_mac = compared(name)
    with capsys.disabled():
        print(f"\n{name}: CPU {dict(on_the_cpu)}, as on a Mac {dict(as_on_a_mac)}")
    assert on_the_cpu["accepted"] > COUNT
    assert on_the_cpu["differences"] == as_on_a_mac["differences"] == 0


def test_every_architecture_of_mlx_lm_is_known():
    kinds = {sizes["model_type"] for sizes in CONFIGURATIONS.values()}
    modules = {module.name for module in pkgutil.iter_modules(mlx_lm.models.__path__)}
    listed = {MODEL_REMAPPING.get(kind, kind) for kind in kinds}
    listed |= _LISTED["without a configuration"].keys()
    assert modules - {*_LISTED["modules that are none"]} == listed
    assert LEFT_OUT.keys() < CONFIGURATIONS.keys()
