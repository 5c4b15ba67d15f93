"""The tables of the conversations' file, made at once. Does not use them."""

import sqlite3
from contextlib import closing

from app.conversations.database import transaction
from models.errors import Problem

APPLICATION_ID = 0x536C7073  # "Slps": marks our SQLite files
VERSION = 12
"""The version of the tables. Those with a lower number are of versions without a release."""


def _indexed(
    index: str, table: str, column: str, *, source: str, new: str, old: str, made_of: str
) -> tuple[str, ...]:
    """Return the statements for a full-text index of one column of `source`, the table itself or a
    view. It stores no text; triggers update it.

    `new` and `old` are the expressions of its text for a row of the table, and `made_of` are the
    columns in them.
    """
    add = f"INSERT INTO {index}(rowid, {column}) VALUES (new.id, {new});"
    take = f"INSERT INTO {index}({index}, rowid, {column}) VALUES ('delete', old.id, {old});"
    return (
        f"""
        CREATE VIRTUAL TABLE {index} USING fts5({column}, content = '{source}',
            content_rowid = 'id', tokenize = 'unicode61 remove_diacritics 2')
        """,
        f"CREATE TRIGGER {index}_add AFTER INSERT ON {table} BEGIN {add} END",
        f"CREATE TRIGGER {index}_take AFTER DELETE ON {table} BEGIN {take} END",
        f"""
        CREATE TRIGGER {index}_change AFTER UPDATE OF {made_of} ON {table}
        BEGIN {take} {add} END
        """,
    )


def _shown(row: str) -> str:
    """Return the expression of the text that is shown of a message: its stretches without
    the marks and the calls."""
    bare = f"{row}.content"
    for mark in ("think", "/think", "thinking", "/thinking"):
        bare = f"replace({bare}, '<{mark}>', '')"
    bare = f"replace(replace({bare}, '[THINK]', ''), '[/THINK]', '')"
    begins = f"ltrim({row}.content, char(9, 10, 13, 32))"
    return f"""
        CASE
        WHEN {row}.role != 'assistant' OR {row}.stretches = '[]' THEN {row}.content
        WHEN {row}.stretches IS NULL THEN iif(
            substr({begins}, 1, 7) IN ('<think>', '[THINK]') OR substr({begins}, 1, 10)
            = '<thinking>' OR instr({row}.content, char(10) || '</think>' || char(10)),
            {bare}, {row}.content)
        WHEN NOT json_valid({row}.stretches) THEN {row}.content
        ELSE (
            WITH RECURSIVE parts (place, start, kind, length) AS (
                SELECT 0, 0, {row}.stretches ->> '$[0][0]', {row}.stretches ->> '$[0][1]'
                UNION ALL
                SELECT place + 1, start + length,
                    {row}.stretches ->> ('$[' || (place + 1) || '][0]'),
                    {row}.stretches ->> ('$[' || (place + 1) || '][1]')
                FROM parts WHERE kind IS NOT NULL
            )
            SELECT coalesce(group_concat(
                substr({row}.content, start + 1, coalesce(length, length({row}.content))), char(10)
            ), '')
            FROM (
                SELECT * FROM parts WHERE coalesce(kind, '') NOT IN ('mark', 'call') ORDER BY place
            )
        )
        END
    """


# Strict, so that a check of the file finds values of another type too.
# Ids are never used again, so that a late write to a purged message changes nothing. The parent's
# and the leaf's references include the conversation: a branch cannot lead into another chat.
# They are deferred, since a purge takes the messages of one conversation in any order; a
# cascade along the parents would end at SQLite's limit of 1,000 levels.
_CONVERSATIONS = (
    # New conversations in a folder begin with its `instruction`, a system prompt, and its `files`:
    # their paths, as a list in JSON; empty for none. A folder that was deleted is hidden.
    """
    CREATE TABLE folders (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        name TEXT NOT NULL,
        open INTEGER NOT NULL DEFAULT 1,
        instruction TEXT NOT NULL DEFAULT '',
        files TEXT NOT NULL DEFAULT '',
        deleted_ms INTEGER
    ) STRICT
    """,
    # `titled` is 0 while the model may replace the title. `queued`: the texts that wait for the end
    # of an answer, as a list in JSON. `tools`: what the user decided on tools, as JSON. Both are
    # empty for none.
    # Deleted messages are kept in a hidden conversation of their own, `taken_from` the conversation
    # that they were said in, below the message `taken_parent`. Those after a message that was
    # `spliced` out follow the one before it.
    """
    CREATE TABLE conversations (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        title TEXT NOT NULL,
        pinned INTEGER NOT NULL DEFAULT 0,
        system_prompt TEXT NOT NULL DEFAULT '',
        settings TEXT NOT NULL DEFAULT '',
        unsent TEXT NOT NULL DEFAULT '',
        leaf INTEGER,
        created_ms INTEGER NOT NULL,
        updated_ms INTEGER NOT NULL,
        deleted_ms INTEGER,
        folder INTEGER REFERENCES folders ON DELETE SET NULL,
        archived INTEGER NOT NULL DEFAULT 0,
        titled INTEGER NOT NULL DEFAULT 1,
        queued TEXT NOT NULL DEFAULT '',
        tools TEXT NOT NULL DEFAULT '',
        taken_from INTEGER REFERENCES conversations ON DELETE CASCADE,
        taken_parent INTEGER,
        spliced INTEGER NOT NULL DEFAULT 0,
        FOREIGN KEY (leaf, id) REFERENCES messages (id, conversation)
            DEFERRABLE INITIALLY DEFERRED
    ) STRICT
    """,
    # `figures`: as `app.conversations.answer_figures` writes them. `sent`: as
    # `app.conversations.attachments` does. `edited` is 1 if the user changed an answer's text.
    # `stretches`: the kinds of an answer's text, as `app.conversations.think_tags` writes them;
    # NULL if only the text's marks show that, as in an imported answer. `steps`: the calls
    # of an answer, as `app.conversations.answer_steps` writes them; empty for none.
    """
    CREATE TABLE messages (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        conversation INTEGER NOT NULL REFERENCES conversations ON DELETE CASCADE,
        parent INTEGER,
        role TEXT NOT NULL CHECK (role IN ('system', 'user', 'assistant')),
        state TEXT NOT NULL CHECK (state IN
            ('complete', 'streaming', 'interrupted', 'failed', 'cancelled', 'length')),
        target TEXT NOT NULL DEFAULT '',
        drafter TEXT NOT NULL DEFAULT '',
        created_ms INTEGER NOT NULL,
        content TEXT NOT NULL,
        figures TEXT,
        sent BLOB,
        edited INTEGER NOT NULL DEFAULT 0,
        stretches TEXT,
        steps TEXT NOT NULL DEFAULT '',
        UNIQUE (id, conversation),
        FOREIGN KEY (parent, conversation) REFERENCES messages (id, conversation)
            DEFERRABLE INITIALLY DEFERRED
    ) STRICT
    """,
    "CREATE INDEX messages_by_parent ON messages (conversation, parent)",
    "CREATE INDEX messages_streaming ON messages (state) WHERE state = 'streaming'",
    # Each flush of a streaming answer adds a part; its end joins them.
    """
    CREATE TABLE traces (
        message INTEGER NOT NULL REFERENCES messages ON DELETE CASCADE,
        part INTEGER NOT NULL,
        events INTEGER NOT NULL,
        lines BLOB NOT NULL,
        PRIMARY KEY (message, part)
    ) STRICT
    """,
)

# A document stays as it was read: sent messages refer to places in it. `content` is JSON,
# compressed, as `app.conversations.attachments` writes it. An attachment without a message is not
# sent yet; one without a document was deleted, or came by an import without it: its number is not
# given again.
_DOCUMENTS = (
    """
    CREATE TABLE documents (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        digest TEXT NOT NULL,
        content BLOB NOT NULL
    ) STRICT
    """,
    "CREATE INDEX documents_by_digest ON documents (digest)",
    """
    CREATE TABLE attachments (
        id INTEGER PRIMARY KEY,
        conversation INTEGER NOT NULL REFERENCES conversations ON DELETE CASCADE,
        message INTEGER,
        number INTEGER NOT NULL,
        document INTEGER REFERENCES documents,
        UNIQUE (conversation, message, number),
        FOREIGN KEY (message, conversation) REFERENCES messages (id, conversation)
            ON DELETE CASCADE
    ) STRICT
    """,
    "CREATE INDEX attachments_by_document ON attachments (document)",
)

# The index of messages has their shown text, so that no mark of a model's template is found, or
# is in an excerpt. A view that FTS5 reads may not use json_each. Calls and results are not
# searched, as documents are not.
_SEARCH = (
    f"CREATE VIEW message_texts AS SELECT id, {_shown('messages')} AS content FROM messages",
    *_indexed(
        "message_words",
        "messages",
        "content",
        source="message_texts",
        new=_shown("new"),
        old=_shown("old"),
        made_of="content, stretches",
    ),
    *_indexed(
        "title_words",
        "conversations",
        "title",
        source="conversations",
        new="new.title",
        old="old.title",
        made_of="title",
    ),
)


def version(connection: sqlite3.Connection) -> int:
    """Return the version of the file's tables; 0 for an empty file."""
    (number,) = connection.execute("PRAGMA user_version").fetchone()
    return int(number)


def check(connection: sqlite3.Connection) -> None:
    """Refuse a file that this version must not write. Only reads. Raises Problem."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (objects,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if application != APPLICATION_ID and (objects or application):
        raise Problem(
            "This file was made by another program.",
            "Move it elsewhere, then open Slipstream again.",
        )
    if version(connection) > VERSION:
        raise Problem(
            "The conversations were last opened with a newer version of Slipstream.",
            "Install the newest version. They were left as they are.",
        )
    if 0 < version(connection) < VERSION:
        raise Problem(
            "The conversations were last opened with a version from before the first release.",
            "Move conversations.sqlite elsewhere, then open Slipstream again. It was left as it "
            "is.",
        )


def lacking(connection: sqlite3.Connection) -> set[str]:
    """Return the missing tables, indexes and triggers of a file that is not new."""
    if not version(connection):
        return set()
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as model:
        make(model)
        return _names(model) - _names(connection)


def make(connection: sqlite3.Connection) -> None:
    """Make the tables if the file is new."""
    if version(connection):
        return
    with transaction(connection):
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        for statement in (*_CONVERSATIONS, *_DOCUMENTS, *_SEARCH):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {VERSION}")


def in_memory(first: int) -> sqlite3.Connection:
    """Return a connection to tables that no disk ever has. Their ids begin after `first`."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    for pragma in ("foreign_keys = ON", "temp_store = MEMORY"):
        connection.execute(f"PRAGMA {pragma}")
    make(connection)
    ids = [(table, first) for table in ("conversations", "messages")]
    connection.executemany("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", ids)
    return connection


def rebuild_indexes(connection: sqlite3.Connection) -> None:
    """Rebuild the full-text indexes from the texts.

    Empties them by hand first: FTS5 cannot start with a broken structure record. The two records
    are the records of an empty index.
    """
    for index in ("message_words", "title_words"):
        for table in ("data", "idx", "docsize"):
            connection.execute(f"DELETE FROM {index}_{table}")
        connection.execute(
            f"INSERT INTO {index}_data (id, block) VALUES (1, x''), (10, x'00000000000000')"
        )
        connection.execute(f"INSERT INTO {index}({index}) VALUES ('rebuild')")


def _names(connection: sqlite3.Connection) -> set[str]:
    return {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")}
