"""A pair's peak memory, in a process of its own: `python -m tests.support.engine.peak_memory`.

MLX's own count of the bytes that it holds, and not the process's: that is what Metal limits, it
does not depend on what an allocator keeps back, and in small models Python would outweigh it.
"""

import json
import resource
import sys
from contextlib import closing
from itertools import islice
from pathlib import Path

import engine  # noqa: F401  # before MLX: it puts OpenBLAS in front

# isort: split
import mlx.core as mx

from engine.conversation.loading import load
from engine.conversation.session import Session
from engine.draft_length.policy import Fixed
from engine.events import Verdict
from engine.request import Request, Sampling
from models.model_folder import ModelFolder

_TURNS = 4
_ROUNDS = 2  # of each answer, after which it is cancelled: later ones need no more
_OTHER_TOKENS = 8  # of an answer, besides those that are drafted in its rounds


def measure(target, drafter, context, length):
    """Load, then fill `context` tokens in a few turns, each answered with drafts of `length`."""
    session = Session(load(ModelFolder(target)), drafter=drafter, policy=Fixed(length))
    loaded = mx.get_peak_memory()
    fill(session, context, answer_tokens=_ROUNDS * length + _OTHER_TOKENS)
    return {
        "peak_bytes": mx.get_peak_memory(),
        "loaded_bytes": loaded,
        "process_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def fill(session, context, *, answer_tokens=40):
    """Fill `context` tokens in a few turns, each answered with `answer_tokens` at most."""
    text = [(7 * i + 3) % min(session.decoder.vocabulary, 250) for i in range(context)]
    request = Request(sampling=Sampling(temperature=0.8, seed=1), max_tokens=answer_tokens)
    for turn in range(1, _TURNS + 1):
        prompt = text[: context * turn // _TURNS - answer_tokens]
        with closing(session.complete(prompt, request)) as events:
            list(islice((event for event in events if isinstance(event, Verdict)), _ROUNDS))


if __name__ == "__main__":
    target, drafter, context, length = sys.argv[1:]
    print(json.dumps(measure(Path(target), drafter, int(context), int(length))))
