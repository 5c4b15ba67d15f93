"""Conversations as the store gives them, for tests of what shows them."""

from datetime import UTC, datetime, timedelta

from app.conversations.records import Conversation

NOW = datetime(2026, 5, 20, 12, tzinfo=UTC)


def conversation(number, title, *, days=0, pinned=False):
    """Return a conversation whose last message came `days` days ago."""
    then = NOW - timedelta(days=days)
    return Conversation(number, title, pinned, "", None, "", None, then, then)


SEVERAL = (
    conversation(7, "Pinned long ago", days=90, pinned=True),
    conversation(1, "Boats"),
    conversation(2, "Parsers"),
    conversation(3, "Soup", days=2),
    conversation(4, "", days=400),
)
