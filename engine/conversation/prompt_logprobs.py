"""The target's log probabilities of a prompt's tokens."""

import mlx.core as mx

from engine.conversation.answer_events import token_logprob
from engine.conversation.text import TokenTexts
from engine.core.decoder import Decoder
from engine.core.sampling import entries, likeliest, logprobs
from engine.device import fetch
from engine.events import TokenLogprob
from engine.speculate import Logprob
from engine.virtual_ids import is_virtual


def prompt_logprobs(
    decoder: Decoder, prompt: list[int], texts: TokenTexts, *, most: int
) -> tuple[TokenLogprob, ...]:
    """The log probability of each token, and the `most` likeliest tokens in its place.

    `decoder` reads the prompt from its beginning, all but the last token. Nothing predicts the
    first one, or a picture's rows.
    """
    judged = [token_logprob(prompt[0], None, texts)]
    for logits in decoder.read_from_start(prompt):
        rows = logprobs(logits.astype(mx.float32))
        behind = prompt[len(judged) : len(judged) + rows.shape[0]]
        known = mx.array([0 if is_virtual(token) else token for token in behind])
        own, ids, values = fetch(entries(rows, known), *likeliest(rows, most))
        tops = [list(zip(*pair, strict=True)) for pair in zip(ids, values, strict=True)]
        judged += [
            token_logprob(token, None if is_virtual(token) else Logprob(*pair), texts)
            for token, *pair in zip(behind, own, tops, strict=True)
        ]
    return tuple(judged)
