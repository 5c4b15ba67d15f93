"""The target answers prompts, many at once, and shows what it thought.

Knows one batch; nothing of files, of heads, or of what is kept for how long.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx
from mlx_lm.models.cache import BatchKVCache, KVCache, make_prompt_cache

from engine.device import fetch
from engine.loading import LoadedModel
from engine.model_parts import Tap
from models.errors import Problem

LIKELIEST = 32  # tokens of each distribution that are kept
_PREFILL_POSITIONS = 4096  # read at once, over all prompts
_BLOCK = 32  # tokens whose largest logit is looked at first


@dataclass(frozen=True, slots=True)
class Asked:
    """A prompt in tokens, and the temperature to answer it with."""

    tokens: list[int]
    temperature: float


@dataclass(frozen=True, slots=True)
class Answer:
    """A prompt with its answer, n tokens together, `prompt` of them the prompt's.

    `states` (n - 1, layers, width): of all but the last, which was never read.
    `top_tokens` and `top_log_probs` (n - prompt, 32): the target's likeliest at each answer token.
    """

    tokens: list[int]
    prompt: int
    greedy: bool
    states: mx.array
    top_tokens: mx.array
    top_log_probs: mx.array


class Answerer:
    """Answers in batches, and records the states behind `layers` of `target`.

    Raises `Problem` for a target whose caches cannot be batched: recurrent or sliding ones.
    """

    def __init__(self, target: LoadedModel, layers: Sequence[int]) -> None:
        self._target = target
        self._tap = Tap([target.model.layers[number - 1] for number in layers])
        self._layers = len(layers)
        self._caches = len(make_prompt_cache(target.model))
        if any(type(cache) is not KVCache for cache in make_prompt_cache(target.model)):
            raise Problem(
                f"{target.folder.name} has layers other than full attention.",
                "Distilling works for full-attention targets so far; draft with lookup.",
            )

    def answer(self, asked: Sequence[Asked], *, longest: int, seed: int) -> list[Answer]:
        """An answer of up to `longest` tokens to each; those that end at once are left out."""
        lengths = [len(one.tokens) for one in asked]
        padding = [max(lengths) - length for length in lengths]
        caches = [BatchKVCache(padding) for _ in range(self._caches)]
        rows = list(range(len(asked)))  # of the batch: those that are still being answered
        written: list[list[int]] = [[] for _ in asked]
        states: list[list[mx.array]] = [[] for _ in asked]
        likeliest: list[list[tuple[mx.array, mx.array]]] = [[] for _ in asked]

        logits, read = self._prefill(
            [[0] * p + one.tokens for p, one in zip(padding, asked, strict=True)], caches
        )
        for row, skipped in enumerate(padding):
            states[row].append(read[row, skipped:])
        for key in mx.random.split(mx.random.key(seed), longest):
            temperatures = mx.array([asked[row].temperature for row in rows])
            chosen, top, log_probs = _choose(logits, temperatures, key)
            (tokens,) = fetch(chosen)
            for place, (row, token) in enumerate(zip(rows, tokens, strict=True)):
                written[row].append(token)
                likeliest[row].append((top[place], log_probs[place]))
            going = [
                place
                for place, (row, token) in enumerate(zip(rows, tokens, strict=True))
                if token not in self._target.ends and len(written[row]) < longest
            ]
            if not going:
                break
            if len(going) < len(rows):
                rows = [rows[place] for place in going]
                for cache in caches:
                    cache.filter(mx.array(going))
                chosen = chosen[mx.array(going)]
            logits, read = self._pass(chosen[:, None], caches)
            mx.eval(logits, read)
            for place, row in enumerate(rows):
                states[row].append(read[place])
        answers = []
        for row, one in enumerate(asked):
            if len(written[row]) > 1:
                tops, log_tops = zip(*likeliest[row], strict=True)
                answer = Answer(
                    [*one.tokens, *written[row]],
                    len(one.tokens),
                    one.temperature == 0,
                    mx.concatenate(states[row]).reshape(
                        len(one.tokens) + len(written[row]) - 1, self._layers, -1
                    ),
                    mx.stack(list(tops)),
                    mx.stack(list(log_tops)),
                )
                mx.eval(answer.states, answer.top_tokens, answer.top_log_probs)
                answers.append(answer)
        return answers

    def _prefill(
        self, padded: list[list[int]], caches: list[BatchKVCache]
    ) -> tuple[mx.array, mx.array]:
        """The last logits (batch, vocabulary) and all states (batch, n, layers * width)."""
        tokens = mx.array(padded)
        step, last = max(1, _PREFILL_POSITIONS // len(padded)), tokens.shape[1] - 1
        reads = []
        for start in range(0, last, step):
            _, read = self._pass(tokens[:, start : min(start + step, last)], caches)
            mx.eval(read)  # and not the logits, which would cost more memory than all the rest
            reads.append(read)
        logits, read = self._pass(tokens[:, last:], caches)
        mx.eval(logits, read)
        return logits, mx.concatenate([*reads, read], axis=1)

    def _pass(self, tokens: mx.array, caches: list[BatchKVCache]) -> tuple[mx.array, mx.array]:
        with self._tap.open():
            logits = self._target.model(tokens, cache=caches)[:, -1]
        return logits, mx.concatenate(self._tap.outputs, axis=-1).astype(mx.bfloat16)


def _choose(
    logits: mx.array, temperatures: mx.array, key: mx.array
) -> tuple[mx.array, mx.array, mx.array]:
    """Next tokens (batch,), and the likeliest with their log probabilities, (batch, 32).

    Samples are drawn from the likeliest alone: from all tokens it would take half of the time.
    """
    logits = logits.astype(mx.float32)
    top = _likeliest(logits, min(LIKELIEST, logits.shape[-1] - 1))
    whole = mx.logsumexp(logits, axis=-1, keepdims=True)
    top_log_probs = mx.take_along_axis(logits, top, axis=-1) - whole
    scaled = top_log_probs / mx.maximum(temperatures, 1e-6)[:, None]
    drawn = mx.random.categorical(scaled, key=key)
    sampled = mx.take_along_axis(top, drawn[:, None], axis=-1)[:, 0]
    chosen = mx.where(temperatures > 0, sampled, mx.argmax(logits, axis=-1))
    return chosen.astype(mx.int32), top.astype(mx.int32), top_log_probs.astype(mx.float16)


def _likeliest(logits: mx.array, count: int) -> mx.array:
    """The `count` largest of each row (batch, vocabulary), in no order.

    They lie in the `count` blocks with the largest maxima: most of a row need not be sorted.
    """
    batch, vocabulary = logits.shape
    blocks = -(-vocabulary // _BLOCK)
    if blocks <= count:
        return mx.argpartition(-logits, count - 1, axis=-1)[:, :count]
    missing = blocks * _BLOCK - vocabulary
    padded = mx.pad(logits, [(0, 0), (0, missing)], constant_values=-mx.inf)
    by_block = padded.reshape(batch, blocks, _BLOCK)
    best = mx.argpartition(-by_block.max(axis=-1), count - 1, axis=-1)[:, :count]
    inside = mx.take_along_axis(by_block, best[..., None], axis=1).reshape(batch, -1)
    places = mx.argpartition(-inside, count - 1, axis=-1)[:, :count]
    return mx.take_along_axis(best, places // _BLOCK, axis=-1) * _BLOCK + places % _BLOCK
