"""Finds the passages of a chat's documents that a drafting model can skip.

Its last question is not about them, judged by its words (`engine.documents.passages`).
"""

from collections.abc import Sequence

from engine.conversation.sources import Sources
from engine.documents import Document, Section
from engine.documents.passages import PassageIndex, choose
from engine.documents.question import looked_for
from engine.request import ChatMessage

MOST_READ = 2048
"""Tokens of documents that a drafting model reads. A small model reads as many in a moment."""


def skippable(messages: Sequence[ChatMessage], sources: Sources) -> list[range]:
    """The tokens of the passages that a drafting model can skip, in order.

    Empty if the documents have at most `MOST_READ` tokens, or if `sources` does not know where they
    stand in the prompt.
    """
    asked = [each.content[each.attached :] for each in messages if each.role == "user"]
    question = looked_for("".join(asked[-1:]), "".join(asked[-2:-1]))
    numbers = [n for n, each in enumerate(messages) if each.attached]

    def tokens(number: int, start: int, end: int) -> list[range]:
        blank = not messages[number].content[start:end].strip()
        return [] if blank else sources.tokens(number, start, end)

    def read(number: int, start: int, end: int) -> int:
        return sum(map(len, tokens(number, start, end)))

    if sum(read(n, 0, messages[n].attached) for n in numbers) <= MOST_READ:
        return []
    with PassageIndex() as index:
        passages = {n: index.passages(n, _document(messages[n])) for n in numbers}
        found = index.find(question, numbers).scores
    beginning = {(n, i): 1 / (1 + i) for n in numbers for i in range(len(passages[n]))}
    needed = choose(
        found or beginning,
        lambda key: read(key[0], passages[key[0]][key[1]].start, passages[key[0]][key[1]].end),
        room=MOST_READ,
        last={n: len(cut) - 1 for n, cut in passages.items()},
    )
    gaps: list[range] = []
    for n in numbers:
        place = 0
        for _, i in (key for key in needed if key[0] == n):
            gaps += tokens(n, place, passages[n][i].start)
            place = passages[n][i].end
        gaps += tokens(n, place, messages[n].attached)
    return sorted(gaps, key=lambda gap: gap.start)


def _document(message: ChatMessage) -> Document:
    """The attachments of a message as one document."""
    return Document("", "text", "", (Section("part", 0, message.content[: message.attached]),))
