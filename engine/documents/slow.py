"""Computes how long a model takes to read documents, by the speed measured on a prompt.

Before the first measurement the speed is unknown: 0 seconds a token.
"""

from engine.documents.plan import Plan

SLOW_SECONDS = 20
"""Who waits longer for a model that reads documents may choose passages."""

_FEWEST = 2048  # tokens of documents that are never slow


def room_in_time(seconds_per_token: float) -> int:
    """The tokens of documents that are read in good time."""
    return max(_FEWEST, int(SLOW_SECONDS / seconds_per_token)) if seconds_per_token else _FEWEST


def is_slow(plan: Plan, seconds_per_token: float) -> bool:
    """Whether a message's documents or passages take long to read, all but pictures."""
    documents = zip(plan.sent.documents, plan.tokens, strict=True)
    tokens = sum(tokens for document, tokens in documents if not document.pixels)
    return seconds_per_token > 0 and tokens > room_in_time(seconds_per_token)


def to_read(seconds: float) -> str:
    """Say about how long a model takes to read."""
    if seconds < 1.5:
        return "about a second to read"
    if seconds < 90:
        rounded = round(seconds) if seconds < 10 else round(seconds / 5) * 5
        return f"about {rounded} s to read"
    return f"about {round(seconds / 60)} min to read"
