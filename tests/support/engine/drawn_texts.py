"""Texts drawn by the loop from models that are tables (`markov.py`), to compare their counts
with the exact distribution.
"""

from dataclasses import replace

import numpy as np

from engine.core.loop import speculate
from engine.core.rounds import RoundVerdict, Task
from engine.drafters.model import ModelDrafter
from engine.request import Sampling
from tests.support.engine.markov import decoder, drafting_tables, random_table

VOCABULARY = 5
TABLE = random_table(VOCABULARY)
DRAFTING = drafting_tables(TABLE)
WARM = Sampling(temperature=0.8)
PENALIZED = replace(
    WARM, repetition_penalty=1.4, frequency_penalty=0.8, penalty_window=3, logit_bias={2: 1.0}
)
PROMPT = [2, 1]
SHORT = 3  # tokens of a short text


def no_ends(sampling, *, seed, length):
    return Task(sampling, seed=seed, max_tokens=length, ends=frozenset())


def write(target, drafter, policy, task, prompt):
    """A text by models that have read nothing yet, and what was ruled on the way."""
    target.rewind(0)
    drafter.rewind(0)
    tokens = list(prompt)
    items = list(speculate(target, drafter, policy, tokens, task))
    return tokens[len(prompt) :], [item for item in items if isinstance(item, RoundVerdict)]


def short_texts(drafter, policy, sampling, *, texts):
    """Counts of short texts, one axis per token."""
    target = decoder(TABLE)
    counts = np.zeros((VOCABULARY,) * SHORT, dtype=np.int_)
    for seed in range(texts):
        task = no_ends(sampling, seed=seed, length=SHORT)
        counts[tuple(write(target, drafter, policy, task, PROMPT)[0])] += 1
    return counts


def long_text(drafter, policy, sampling, *, length, table=TABLE):
    """Counts of every token by the two before it, and what was ruled on the way."""
    task = no_ends(sampling, seed=0, length=length)
    text, rulings = write(decoder(table), drafter, policy, task, PROMPT)
    tokens = np.array(PROMPT + text)
    counts = np.zeros(table.shape, dtype=np.int_)
    np.add.at(counts, (tokens[:-2], tokens[1:-1], tokens[2:]), 1)
    return counts, rulings


def model_drafter(table, vocabulary=VOCABULARY):
    return ModelDrafter(decoder(table), vocabulary=vocabulary)


def accepted(rulings):
    return sum(verdict.accepted for verdict in rulings)
