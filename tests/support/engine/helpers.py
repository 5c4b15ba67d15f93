"""Shared by the engine's tests: runs of the loop, fresh replays, scripted models and drafters.

Everything that is written through here is checked twice: drafts, verdicts and tokens keep the laws
that tie them together (`write`), and the caches afterwards are those of a fresh replay of the same
tokens, bit for bit (`assert_as_fresh`).
"""

import copy
import functools
import random
from dataclasses import dataclass, field

import mlx.core as mx
import mlx.nn as nn
import pytest
from mlx_lm.models.cache import ArraysCache, QuantizedKVCache

from engine.core.batch import can_share
from engine.core.cache import QuantizedCaches, keys_and_values
from engine.core.decoder import Decoder
from engine.core.loop import speculate
from engine.core.model_parts import standing_in
from engine.core.rounds import RoundDraft, RoundVerdict, Task
from engine.device import backend
from engine.draft_length import DraftCandidate, DraftChoice
from engine.draft_length.policy import Fixed, FixedTree
from engine.drafters import DraftArrays, Drafter, NoDrafter
from engine.request import Sampling
from tests.support.engine import tiny

GREEDY = Sampling()
_ROUNDING = 0.1  # of the deviation of what is compared
BLOCK = 16  # by how much caches move and grow at a time: often
PROMPT = [11, 3, 52, 7, 40, 7, 19, 3, 60, 22, 5, 31]
QUANTIZED = QuantizedCaches(bits=8, group_size=32, start=len(PROMPT) + 9)

# One of each kind of cache: full, windows, recurrent and full, recurrent.
CORE = ("llama", "gemma3_text", "qwen3_5", "mamba")


def decoder(model, *, quantized=None, block=BLOCK):
    """Return a decoder whose caches move and grow early."""
    trial = functools.cache(functools.partial(can_share, model))
    return Decoder(model, quantized=quantized, block=block, trial=trial)


def having_read(tokens, model, **options):
    """Return a decoder that has read `tokens`."""
    made = decoder(model, **options)
    list(made.prefill([*tokens, 0]))
    return made


def build_wide(architecture, **options):
    """Build as `tiny.build`, with heads wide enough for quantized caches (32, a group)."""
    wide = dict(tiny._CONFIGS[architecture])
    if "head_dim" in wide and architecture != "qwen2":  # whose heads share the hidden size
        wide["head_dim"] = 32
    else:
        wide["hidden_size"] = wide["block_dim"] = 32 * wide["num_attention_heads"]
    return tiny.build(architecture, sizes=wide, **options)


# Runs of the loop


@dataclass
class Run:
    """The result of `write`: the new tokens, and of each round its draft, if it had one, and its
    verdict."""

    tokens: list[int] = field(default_factory=list)
    rounds: list[tuple[RoundDraft | None, RoundVerdict]] = field(default_factory=list)

    @property
    def proposed(self):
        return sum(len(guess.tokens) for guess, _ in self.rounds if guess)

    @property
    def accepted(self):
        return sum(verdict.accepted for _, verdict in self.rounds)


def task(count, *, ends=(), sampling=GREEDY, seed=0):
    return Task(sampling=sampling, seed=seed, max_tokens=count, ends=frozenset(ends))


def write(target, drafter, policy, tokens, to_do):
    """Write after `tokens`, in place, as a session does; checks the laws of the loop."""
    prompt = len(tokens)
    read_prompt(target, drafter, tokens)
    run, guess = Run(), None
    for item in speculate(target, drafter, policy, tokens, to_do):
        if isinstance(item, RoundDraft):
            assert guess is None, "two guesses in a round"
            assert item.tokens, "an empty guess"
            assert len(item.q) == len(item.tokens)
            guess = item
            continue
        committed = [guess.tokens[i] for i in item.path] if guess else []
        committed = committed + ([] if item.own is None else [item.own])
        assert committed, "a round without a token"
        run.tokens += committed
        assert tokens[prompt:] == run.tokens, "the rulings do not add up to the tokens"
        assert len(item.p) == len(item.chance) == (len(guess.tokens) if guess else 0)
        assert item.accepted <= len(item.p)
        assert item.parents == (guess.parents if guess else ())
        if item.own is None:
            assert committed[-1] in to_do.ends, "no token of its own, and no end"
        run.rounds.append((guess, item))
        guess = None
    assert guess is None, "a guess without a verdict"
    assert len(run.tokens) <= to_do.max_tokens
    assert not any(token in to_do.ends for token in run.tokens[:-1]), "after the end"
    if len(run.tokens) < to_do.max_tokens:
        assert run.tokens[-1] in to_do.ends, "too short"
    return run


def run_greedily(
    model,
    make_drafter,
    length,
    *,
    count,
    prompt=PROMPT,
    quantized=None,
    block=BLOCK,
    check_caches=True,
    trees=False,
):
    """`count` greedy tokens with drafts of `length`, or `trees` of so many tokens."""
    target = decoder(model, quantized=quantized, block=block)
    tokens = list(prompt)
    policy = FixedTree(length) if trees else Fixed(length)
    run = write(target, make_drafter(target), policy, tokens, task(count))
    if check_caches:
        assert_as_fresh(target, tokens, decoder(model, quantized=quantized, block=block))
    return run


def plainly(model, *, count, prompt=PROMPT, quantized=None, block=BLOCK):
    """Return the tokens that the target writes alone, one by one."""
    read_as = {"count": count, "prompt": prompt, "quantized": quantized, "block": block}
    run = run_greedily(model, lambda _: NoDrafter(), 0, **read_as)
    assert run.proposed == 0
    return run.tokens


def ranked(model, tokens, *, quantized=None):
    """Return for every position but the first the best token, the second best, and their margin,
    all read one by one."""
    reader, rows = decoder(model, quantized=quantized), []
    for token in tokens[:-1]:
        logits = reader.read(mx.array([token]))[-1].astype(mx.float32)
        best = mx.argsort(-logits)[:2]
        margin = logits[best[0]] - logits[best[1]]
        first, second = best.tolist()
        rows.append((first, second, margin.item()))
    return rows


# Fresh replays


def next_logits(of, token):
    """The logits that reading `token` would give, and the caches then; `of` stays as it is."""
    timeline = copy.deepcopy(of.timeline)
    caches = timeline.open()
    with standing_in(of.model, of._stand_ins(of.length + 1)):
        logits = of.model(mx.array([[token]]), cache=caches)[0, -1]
    return logits, caches


def contents(layer):
    """The arrays of a cache, without what lies after its end."""
    if isinstance(layer, ArraysCache):
        return [array for array in layer.cache if array is not None]
    held = layer.offset - getattr(layer, "base", 0)
    parts = (layer.keys, layer.values)
    if isinstance(layer, QuantizedKVCache) and not backend().exact_rows:
        return list(keys_and_values(layer))
    if isinstance(layer, QuantizedKVCache):
        parts = (*layer.keys, *layer.values)
    return [part[..., :held, :] for part in parts]


def assert_as_fresh(of, tokens, fresh):
    """Assert that the caches of `of` are those that `fresh` gets from reading `tokens[:
    of.length]`.

    Compares the next token's logits, and the contents of the caches: bit for bit where rows are
    exact, and nearly where a pass rounds by their number.
    """
    length, probe = of.length, 7
    assert length <= len(tokens), "the caches hold more than was committed"
    assert fresh.length == 0
    for layer in of.timeline.layers:
        if not isinstance(layer, ArraysCache):
            assert layer.offset == length, "offset and length differ"
            assert layer.offset - getattr(layer, "base", 0) <= keys_held(layer)
    for _ in fresh.prefill([*tokens[:length], probe]):
        pass
    ours, our_caches = next_logits(of, probe)
    theirs, their_caches = next_logits(fresh, probe)
    assert _alike(ours, theirs), "next logits differ from a fresh replay's"
    for ours, theirs in zip(our_caches, their_caches, strict=True):
        assert type(ours) is type(theirs)
        for a, b in zip(contents(ours), contents(theirs), strict=True):
            assert _alike(a, b), "a cache differs from a fresh replay's"


def _alike(a, b):
    if backend().exact_rows or not mx.issubdtype(a.dtype, mx.floating):
        return bool(mx.array_equal(a, b))
    a, b = a.astype(mx.float32), b.astype(mx.float32)
    return bool(mx.sqrt(mx.mean(mx.square(a - b))) <= _ROUNDING * mx.std(b))


def keys_held(layer):
    """Return the number of positions in the arrays of an attention cache."""
    if layer.keys is None:
        return 0
    keys = layer.keys[0] if isinstance(layer, QuantizedKVCache) else layer.keys
    return int(keys.shape[2])


# Scripted models and drafters


def up_to(length, *, drafter=""):
    """A choice to draft so many tokens."""
    return DraftChoice(length, drafter=drafter)


def proposed(drafter, tokens, length=4):
    """Return the tokens that it proposes greedily."""
    return drafted(drafter, tokens, length)[0]


def drafted(drafter, tokens, length=4):
    """Return the tokens that it proposes greedily, and the q of each."""
    draft = drafter.propose(tokens, up_to(length), GREEDY, mx.random.key(0))
    return draft.tokens.tolist(), draft.q.tolist()


def assert_same_draft(one, other):
    assert one[0] == other[0]
    assert one[1] == pytest.approx(other[1], rel=1e-3)


def read_prompt(target, drafter, tokens):
    """Let both read a prompt, as a session does."""
    for reading in (target.prefill(tokens), drafter.prepare(tokens)):
        for _ in reading:
            pass


class Scripted(nn.Module):
    """Wants `script[i]` at position i, whatever it has read. Its cache holds the ids it read."""

    def __init__(self, script, *, vocabulary=260):
        super().__init__()
        self.layers = [nn.Identity()]
        self._script = mx.array(list(script))
        self._vocabulary = vocabulary

    def __call__(self, tokens, cache=None):
        start = 0
        if cache is not None:
            start = cache[0].offset
            ids = mx.broadcast_to(tokens[:, None, :, None], (*tokens[:, None].shape, 32))
            cache[0].update_and_fetch(ids.astype(mx.float32), ids.astype(mx.float32))
        wanted = mx.arange(start + 1, start + 1 + tokens.shape[1])
        wanted = self._script[mx.minimum(wanted, self._script.size - 1)]
        return 10.0 * (mx.arange(self._vocabulary) == wanted[:, None])[None].astype(mx.float32)


def ids_held(of):
    """The token ids that the cache of a `Scripted` model holds."""
    layer = of.timeline.layers[0]
    if layer.keys is None:
        return []
    return layer.keys[0, 0, : layer.offset, 0].astype(mx.int32).tolist()


class Known(Drafter):
    """Knows what comes where: proposes `script`, but something else at positions in `wrong`.

    At positions in `silent` it proposes nothing. Remembers what it was told.
    """

    name = "known"

    def __init__(self, script, *, vocabulary=64, wrong=(), silent=()):
        self._silent = silent
        self._script = [
            (token + 1) % vocabulary if i in wrong else token for i, token in enumerate(script)
        ]
        self.settled = []
        self.rewound = []

    def candidates(self, tokens):
        return (DraftCandidate(self.name, 1 << 30),)

    def propose(self, tokens, choice, sampling, key):
        guesses = self._script[len(tokens) : len(tokens) + choice.length]
        if not guesses or len(tokens) in self._silent:
            return None
        q = mx.ones((len(guesses),))
        return DraftArrays(mx.array(guesses, dtype=mx.int32), q, None, self.name)

    def accept(self, path):
        self.settled.append(len(path))

    def rewind(self, length):
        self.rewound.append(length)

    def fork(self, target):
        return copy.copy(self)


EVERYWHERE = range(1 << 30)


def now_and_then(seed, *, chance=0.3):
    """Positions that `Known` may be wrong at."""
    draw = random.Random(seed)
    return frozenset(i for i in range(4096) if draw.random() < chance)
