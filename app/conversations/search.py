"""Full-text search in messages and titles, for anything that the user types.

Every word must occur, the last one perhaps only begun; case and accents do not matter. Nothing
typed is an operator. If the index has no such words (signs, emoji, scripts without spaces or with
vowel signs and points) or finds nothing, the texts themselves are searched.
"""

import re
import sqlite3
from collections.abc import Iterator

from app.conversations.records import Excerpt, Hit, SearchFilter, to_milliseconds, without_marks
from engine.documents.words import MARKS, OTHER_WORDS, WORD, plain, searched
from models.in_words import one_line

_LONGEST_QUERY = 500
_MOST_WORDS = 32
_BEFORE, _AFTER = 30, 120  # characters of an excerpt around a match
_ALL = SearchFilter()
_START, _END = "\x02", "\x03"  # occur in no text
_NOT_INDEXED = re.compile(f"[{OTHER_WORDS}]")  # the index cuts at marks, or takes a whole run
_FENCE_OR_RULE = re.compile(r"(`{3,}|~{3,})[\w+-]*|[-*_=]{3,}|[|:\s-]*-{3,}[|:\s-]*")
_HALF_A_PAIR = re.compile(
    rf"(?<![\w{MARKS}*])\*\*(?=\w)|(?<=[\w{MARKS}.!?:])\*\*(?![\w*])|(?<!{WORD})`+(?=\w)"
)

_MESSAGES = "AND m.created_ms >= ? AND (? IN ('', m.target))"
_TITLES = (
    "AND c.updated_ms >= ? AND (? = '' OR EXISTS "
    "(SELECT 1 FROM messages a WHERE a.conversation = c.id AND a.target = ?))"
)
_IN_MESSAGES = f"""
    SELECT m.conversation, m.id, c.title,
        snippet(message_words, 0, '{_START}', '{_END}', '…', 16)
    FROM message_words
    JOIN messages m ON m.id = message_words.rowid
    JOIN conversations c ON c.id = m.conversation
    WHERE message_words MATCH ? AND c.deleted_ms IS NULL {_MESSAGES}
    ORDER BY message_words.rowid DESC LIMIT ?
"""
_IN_TITLES = f"""
    SELECT c.id, NULL, c.title, highlight(title_words, 0, '{_START}', '{_END}')
    FROM title_words
    JOIN conversations c ON c.id = title_words.rowid
    WHERE title_words MATCH ? AND c.deleted_ms IS NULL {_TITLES}
    ORDER BY c.updated_ms DESC LIMIT ?
"""


def search(
    connection: sqlite3.Connection, text: str, *, limit: int = 50, among: SearchFilter = _ALL
) -> tuple[Hit, ...]:
    """Return what contains all words of `text`, the last perhaps only begun: titles first, then
    messages, the newest first; at most `limit` of each. Any text is allowed. Documents are not
    searched.

    For titles, the filter's model must have written an answer in the conversation.
    """
    words = _words(text)
    if not words:
        return ()
    hits: list[Hit] = []
    expression = _expression(words)
    if expression is not None:
        for query, values in ((_IN_TITLES, _of_title(among)), (_IN_MESSAGES, _of_message(among))):
            for conversation, message, title, marked in connection.execute(
                query, (expression, *values, limit)
            ):
                hits.append(Hit(conversation, message, title, tuple(_unmark(marked))))
    return tuple(hits or _look_through(connection, words, limit=limit, among=among))


def targets(connection: sqlite3.Connection) -> tuple[str, ...]:
    """Return the names of the models that wrote answers."""
    rows = connection.execute("SELECT DISTINCT target FROM messages WHERE target != ''")
    return tuple(sorted((target for (target,) in rows), key=str.casefold))


def _of_message(among: SearchFilter) -> tuple[int | str, ...]:
    """The values of `_MESSAGES`."""
    return (0 if among.since is None else to_milliseconds(among.since), among.target)


def _of_title(among: SearchFilter) -> tuple[int | str, ...]:
    """The values of `_TITLES`."""
    return (*_of_message(among), among.target)


def _words(text: str) -> list[str]:
    """Return the words of a query without characters that no text has: controls, half
    surrogates."""
    return one_line(text[:_LONGEST_QUERY]).split()[:_MOST_WORDS]


def _expression(words: list[str]) -> str | None:
    """Return the query for FTS5; None if the index cannot answer it.

    Each word is quoted, so that it contains no operator.
    """
    if any(_NOT_INDEXED.search(word) for word in words):
        return None
    known = [word for word in words if any(map(str.isalnum, word))]
    if not known:
        return None
    return " ".join('"{}"'.format(word.replace('"', '""')) for word in known) + "*"


def _look_through(
    connection: sqlite3.Connection, words: list[str], *, limit: int, among: SearchFilter
) -> Iterator[Hit]:
    """Find the words anywhere in the texts. Slower, as every text is read."""
    connection.create_function("searched", 1, lambda text: plain(text, "NFKD").casefold())
    wanted = [bare for word in words if (bare := searched(word)[0])]
    for query, values in (
        (
            f"""
            SELECT id, NULL, title, title AS shown FROM conversations c
            WHERE deleted_ms IS NULL AND {{}} {_TITLES} ORDER BY updated_ms DESC LIMIT ?
            """,
            _of_title(among),
        ),
        (
            f"""
            SELECT m.conversation, m.id, c.title, t.content AS shown
            FROM messages m JOIN message_texts t ON t.id = m.id
            JOIN conversations c ON c.id = m.conversation
            WHERE c.deleted_ms IS NULL AND {{}} {_MESSAGES} ORDER BY m.id DESC LIMIT ?
            """,
            _of_message(among),
        ),
    ):
        all_of_them = " AND ".join(["instr(searched(shown), ?)"] * len(wanted)) or "FALSE"
        rows = connection.execute(query.format(all_of_them), (*wanted, *values, limit))
        for conversation, message, title, content in rows:
            yield Hit(conversation, message, title, _excerpts(content, wanted))


def _excerpts(content: str, words: list[str]) -> tuple[Excerpt, ...]:
    """Return the surroundings of the first match, with all matches in them marked."""
    text, places = searched(content)
    found = [match.span() for match in re.finditer("|".join(map(re.escape, words)), text)]
    middle = places[found[0][0]] if found else 0
    start, end = max(0, middle - _BEFORE), min(len(content), middle + _AFTER)
    marked = content[start:end]
    for first, last in reversed([(places[a] - start, places[b - 1] + 1 - start) for a, b in found]):
        if first >= 0 and last <= end - start:
            marked = f"{marked[:first]}{_START}{marked[first:last]}{_END}{marked[last:]}"
    return tuple(_unmark("…" * (start > 0) + marked + "…" * (end < len(content))))


def _unmark(marked: str) -> Iterator[Excerpt]:
    """Split a text with marked matches, without Markdown's marks. Each run of white space becomes
    one space."""
    inside = False
    bare = " ".join(map(_without_marks, marked.splitlines()))
    for part in re.split(f"([{_START}{_END}])", " ".join(bare.split())):
        if part in (_START, _END):
            inside = part == _START
        elif part:
            yield Excerpt(text=part, match=inside)


def _without_marks(line: str) -> str:
    """Return a line of an excerpt without Markdown's marks, also where the excerpt cuts a pair."""
    cut = "…" if line.startswith("…") else ""
    line = line.removeprefix("…").strip()
    if _FENCE_OR_RULE.fullmatch(line):
        return cut
    return cut + _HALF_A_PAIR.sub("", without_marks(line) if line else "")
