"""The tables, and the steps that made them.

A file of version n has had the first n steps. A released step never changes: later changes are new
steps. Does not use the tables.
"""

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing

from models.errors import Problem

APPLICATION_ID = 0x536C7073  # "Slps": marks our SQLite files

Step = tuple[str, ...]

# Strict, so that a check of the file finds values of another type too.
# Ids are never used again, so that a late write to a purged message changes nothing. The parent's
# and the leaf's references include the conversation: a branch cannot lead into another chat.
# They are deferred, since a purge takes the messages of one conversation in any order; a
# cascade along the parents would end at SQLite's limit of 1,000 levels.
_CONVERSATIONS: Step = (
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
        FOREIGN KEY (leaf, id) REFERENCES messages (id, conversation)
            DEFERRABLE INITIALLY DEFERRED
    ) STRICT
    """,
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


def _indexed(
    index: str,
    table: str,
    column: str,
    *,
    view: str = "",
    text: Callable[[str], str] | None = None,
    made_of: str = "",
) -> Step:
    """Return the step for a full-text index of one column. It stores no text; triggers update it.

    The column may be a view's: then `text` returns the expression of it for a row of the table with
    this name, and `made_of` are the columns in it.
    """
    old, new = (text(row) if text else f"{row}.{column}" for row in ("old", "new"))
    add = f"INSERT INTO {index}(rowid, {column}) VALUES (new.id, {new});"
    take = f"INSERT INTO {index}({index}, rowid, {column}) VALUES ('delete', old.id, {old});"
    return (
        f"""
        CREATE VIRTUAL TABLE {index} USING fts5({column}, content = '{view or table}',
            content_rowid = 'id', tokenize = 'unicode61 remove_diacritics 2')
        """,
        f"CREATE TRIGGER {index}_add AFTER INSERT ON {table} BEGIN {add} END",
        f"CREATE TRIGGER {index}_take AFTER DELETE ON {table} BEGIN {take} END",
        f"""
        CREATE TRIGGER {index}_change AFTER UPDATE OF {made_of or column} ON {table}
        BEGIN {take} {add} END
        """,
        f"INSERT INTO {index}({index}) VALUES ('rebuild')",
    )


_SEARCH: Step = (
    *_indexed("message_words", "messages", "content"),
    *_indexed("title_words", "conversations", "title"),
)

# As `app.conversations.answer_figures` writes them; NULL for answers from before this step.
_FIGURES: Step = ("ALTER TABLE messages ADD COLUMN figures TEXT",)

# Existing titles count as given, so that the model replaces none of them.
_FOLDERS: Step = (
    """
    CREATE TABLE folders (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        name TEXT NOT NULL,
        open INTEGER NOT NULL DEFAULT 1
    ) STRICT
    """,
    "ALTER TABLE conversations ADD COLUMN folder INTEGER REFERENCES folders ON DELETE SET NULL",
    "ALTER TABLE conversations ADD COLUMN archived INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE conversations ADD COLUMN titled INTEGER NOT NULL DEFAULT 1",
)

# A document stays as it was read: what was sent refers to places in it. `content` and `sent` are
# JSON, compressed, as `app.conversations.attachments` writes them. An attachment without a message
# is not sent yet; one without a document was deleted, or came by an import without it: its number
# is not given again.
_DOCUMENTS: Step = (
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
    "ALTER TABLE messages ADD COLUMN sent BLOB",
)

# The texts that wait for the end of an answer, as a list in JSON; empty for none. `edited` is 1 if
# a person changed an answer's text.
_QUEUE: Step = ("ALTER TABLE conversations ADD COLUMN queued TEXT NOT NULL DEFAULT ''",)
_EDITED: Step = ("ALTER TABLE messages ADD COLUMN edited INTEGER NOT NULL DEFAULT 0",)

# What new conversations in a folder begin with: a system prompt, and the paths of files, as a list
# in JSON; empty for none.
_FOLDER_SETUP: Step = (
    "ALTER TABLE folders ADD COLUMN instruction TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE folders ADD COLUMN files TEXT NOT NULL DEFAULT ''",
)

# What in an answer's text is reasoning, as `app.conversations.spelled` writes it; NULL if only the
# text's marks show that, as in answers from before this step.
_STRETCHES: Step = ("ALTER TABLE messages ADD COLUMN stretches TEXT",)


def _shown(row: str, left: str = "kind IS NOT 'mark'") -> str:
    """Return the expression of the text that is shown of a message: of its stretches those for
    which `left` is true, thus without the marks around them."""
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
            FROM (SELECT * FROM parts WHERE {left} ORDER BY place)
        )
        END
    """


def _index_of(text: Callable[[str], str]) -> Step:
    """Return the step that replaces the index of messages by an index of this text."""
    return (
        *(f"DROP TRIGGER message_words_{name}" for name in ("add", "take", "change")),
        "DROP TABLE message_words",
        f"CREATE VIEW message_texts AS SELECT id, {text('messages')} AS content FROM messages",
        *_indexed(
            "message_words",
            "messages",
            "content",
            view="message_texts",
            text=text,
            made_of="content, stretches",
        ),
    )


def _without_calls(row: str) -> str:
    """Return the expression of the text that is shown of a message since it may call tools."""
    return _shown(row, "coalesce(kind, '') NOT IN ('mark', 'call')")


# The index has what is shown, so that no mark of a model's template is found, or stands in an
# excerpt. A view that FTS5 reads may not use json_each.
_SHOWN: Step = _index_of(_shown)

# The calls of an answer, as `app.conversations.answer_steps` writes them, and what a person decided
# on tools in a conversation, as JSON; empty for none. Calls and results are not searched, as
# documents are not.
_TOOLS: Step = (
    "ALTER TABLE messages ADD COLUMN steps TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE conversations ADD COLUMN tools TEXT NOT NULL DEFAULT ''",
    "DROP VIEW message_texts",
    *_index_of(_without_calls),
)

# Deleted messages are kept in a hidden conversation of their own, `taken_from` the one that they
# were said in, below the message `taken_parent`. Those after a message that was `spliced` out
# follow the one before it. A folder that was deleted is hidden, too.
_DELETED: Step = (
    "ALTER TABLE conversations ADD COLUMN taken_from INTEGER "
    "REFERENCES conversations ON DELETE CASCADE",
    "ALTER TABLE conversations ADD COLUMN taken_parent INTEGER",
    "ALTER TABLE conversations ADD COLUMN spliced INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE folders ADD COLUMN deleted_ms INTEGER",
)

STEPS: tuple[Step, ...] = (
    _CONVERSATIONS,
    _SEARCH,
    _FIGURES,
    _FOLDERS,
    _DOCUMENTS,
    _QUEUE,
    _EDITED,
    _FOLDER_SETUP,
    _STRETCHES,
    _SHOWN,
    _TOOLS,
    _DELETED,
)


def version(connection: sqlite3.Connection) -> int:
    """Return the number of steps that the file has had; 0 for an empty file."""
    (number,) = connection.execute("PRAGMA user_version").fetchone()
    return int(number)


def check(connection: sqlite3.Connection, *, steps: Sequence[Step] = STEPS) -> None:
    """Refuse a file that this version must not write. Only reads. Raises Problem."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (objects,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if application != APPLICATION_ID and (objects or application):
        raise Problem(
            "This file holds no Slipstream conversations: another program made it.",
            "Move it elsewhere, then open Slipstream again.",
        )
    if version(connection) > len(steps):
        raise Problem(
            "The conversations were last opened with a newer version of Slipstream.",
            "Install the newest version. They were left as they are.",
        )


def lacking(connection: sqlite3.Connection, *, steps: Sequence[Step] = STEPS) -> set[str]:
    """Return the missing tables, indexes and triggers of a file's version."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as model:
        migrate(model, back_up=lambda: None, steps=steps[: version(connection)])
        return _names(model) - _names(connection)


def migrate(
    connection: sqlite3.Connection, *, back_up: Callable[[], object], steps: Sequence[Step] = STEPS
) -> None:
    """Bring the file to the newest version, each step in its own transaction.

    `back_up` is called before the first step, unless the file is new. If it raises, nothing
    changes.
    """
    if 0 < version(connection) < len(steps):
        back_up()
    for number in range(version(connection), len(steps)):
        connection.execute("BEGIN IMMEDIATE")
        try:
            if number == 0:
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            for statement in steps[number]:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number + 1}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def rebuild_indexes(connection: sqlite3.Connection) -> None:
    """Rebuild the full-text indexes from the texts.

    Empties them by hand first: FTS5 cannot start with a broken structure record. The two records
    are those of an empty index.
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
