"""How many of an answer's drafted tokens were copied from documents, and how many of them stood.

Knows events, and what messages have of documents; no text of an answer.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engine.documents.prompt import Sent
from engine.events import Draft, Event, Verdict


@dataclass(frozen=True, slots=True)
class CopiedGuesses:
    drafted: int = 0
    stood: int = 0

    def __str__(self) -> str:
        """ "18 of 40 guesses copied from documents stood"; empty for none."""
        if not self.drafted:
            return ""
        return f"{self.stood} of {self.drafted} guesses copied from documents stood"


def copied_guesses(events: Iterable[Event], chat: Sequence[Sent | None]) -> CopiedGuesses:
    """Of an answer's events. `chat`: for each message of the prompt what it has of documents; None
    for one without."""
    copied, drafted, stood = False, 0, 0
    for event in events:
        if isinstance(event, Draft):
            source = event.source
            sent = chat[source.message] if source and source.message < len(chat) else None
            copied = (
                source is not None and sent is not None and sent.source(source.offset) is not None
            )
        elif isinstance(event, Verdict):
            if copied:
                drafted += len(event.judgements)
                stood += event.accepted
            copied = False
    return CopiedGuesses(drafted, stood)
