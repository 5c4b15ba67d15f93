"""The documents attached to messages, in SQL, and private copies: of PDFs, from which pages are
drawn, and of pictures. Each SQL function runs inside its caller's transaction.

A document and its copy are stored once, however often it is attached, and removed with the last
attachment. Backups contain documents as they contain messages: a deleted document stays in backups
until these are removed. Copies are in no backup: without a copy, a text is shown but no page, and a
picture is gone.
"""

import hashlib
import sqlite3
import zlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from app.conversations import conversation_table
from app.conversations.database import disk_problem, insert
from app.conversations.records import Entry, ExportedChat, clean, picture_of
from engine.documents import Document, document_from_json
from engine.documents.prompt import Sent, sent_from_json
from engine.documents.reading import rewritten
from models.errors import Problem
from models.files import replacing

_NUMBERED = """
    SELECT DISTINCT a.number, d.content FROM attachments a JOIN documents d ON d.id = a.document
    WHERE a.conversation = ?
"""

# A number means one document, also in the messages that were deleted from a conversation.
_WITH_DELETED = (
    "(conversation = ? OR conversation IN (SELECT id FROM conversations WHERE taken_from = ?))"
)


def attach(connection: sqlite3.Connection, conversation: int, document: Document) -> int:
    """Attach a document to the unsent message. Returns the document's number in the conversation,
    which stays the same however often it is attached."""
    conversation_table.get(connection, conversation)
    row = _stored(connection, document)
    (number,) = connection.execute(
        "SELECT coalesce(max(iif(document = ?, number, NULL)), max(number) + 1, 1) "
        f"FROM attachments WHERE {_WITH_DELETED}",
        (row, conversation, conversation),
    ).fetchone()
    attached = connection.execute(
        "SELECT 1 FROM attachments WHERE conversation = ? AND message IS NULL AND number = ?",
        (conversation, number),
    ).fetchone()
    if attached is None:
        _insert(connection, conversation, None, number, row)
    return int(number)


def detach(connection: sqlite3.Connection, conversation: int, number: int) -> None:
    """Detach a document from the unsent message."""
    connection.execute(
        "DELETE FROM attachments WHERE conversation = ? AND message IS NULL AND number = ?",
        (conversation, number),
    )


def unsent(connection: sqlite3.Connection, conversation: int) -> tuple[tuple[int, Document], ...]:
    """Return the documents attached to the unsent message, with their numbers."""
    return _documents(connection, f"{_NUMBERED} AND a.message IS NULL ORDER BY a.id", conversation)


def documents_of(
    connection: sqlite3.Connection, conversation: int
) -> tuple[tuple[int, Document], ...]:
    """Return all documents of a conversation with their numbers, also of other branches."""
    return _documents(connection, f"{_NUMBERED} ORDER BY a.number", conversation)


def send(
    connection: sqlite3.Connection, conversation: int, message: int, sent: Sent | None
) -> None:
    """Store the sent parts of a message's documents, which are then no longer unsent."""
    if sent is None:
        return
    _renew(connection, message, sent)
    for number in dict.fromkeys(document.number for document in sent.documents):
        row = connection.execute(
            "SELECT max(document) FROM attachments WHERE conversation = ? AND number = ?",
            (conversation, number),
        ).fetchone()
        _insert(connection, conversation, message, number, row[0])
        detach(connection, conversation, number)


def bring(
    connection: sqlite3.Connection,
    conversation: int,
    entry: Entry,
    chat: ExportedChat,
    folder: Path,
) -> None:
    """Attach the pictures of an imported message that came with it, or have copies already."""
    for picture in entry.pictures:
        document = Document(picture.name, "picture", picture.digest, (), pixels=picture.pixels)
        data = rewritten(chat.pictures.get(picture.digest, b""), document)
        if data is not None:
            keep_copy(data, folder, document)
        if picture_of(picture, folder):
            _insert(connection, conversation, None, picture.number, _stored(connection, document))


def _renew(connection: sqlite3.Connection, message: int, sent: Sent) -> None:
    connection.execute("UPDATE messages SET sent = ? WHERE id = ?", (packed(sent), message))


def digests(
    connection: sqlite3.Connection, conversations: Sequence[int], *, number: int | None = None
) -> tuple[str, ...]:
    """Return the digests of the documents of some conversations: of all, or of the document with
    this number."""
    marks = ",".join("?" * len(conversations))
    rows = connection.execute(
        "SELECT DISTINCT d.digest FROM documents d JOIN attachments a ON a.document = d.id "
        f"WHERE a.conversation IN ({marks}) AND a.number = ifnull(?, a.number)",
        (*conversations, number),
    )
    return tuple(digest for (digest,) in rows)


def delete(connection: sqlite3.Connection, conversation: int, number: int) -> None:
    """Remove a document from everything sent in a conversation. A line takes its place."""
    where = f"{_WITH_DELETED} AND number = ?"
    rows = connection.execute(
        "SELECT id, sent FROM messages "
        f"WHERE id IN (SELECT message FROM attachments WHERE {where})",
        (conversation, conversation, number),
    ).fetchall()
    for message, blob in rows:
        if (sent := unpacked(blob)) is not None:
            _renew(connection, message, sent.without(number))
    connection.execute(
        f"UPDATE attachments SET document = NULL WHERE {where}",
        (conversation, conversation, number),
    )
    detach(connection, conversation, number)


def drop_unused(connection: sqlite3.Connection) -> set[str]:
    """Remove the documents without attachments. Returns the digests of the others."""
    connection.execute(
        "DELETE FROM documents WHERE id NOT IN "
        "(SELECT document FROM attachments WHERE document IS NOT NULL)"
    )
    return {digest for (digest,) in connection.execute("SELECT digest FROM documents")}


def drop_copies(folder: Path, known: set[str]) -> None:
    """Remove the copies of documents that are not `known`, by their digests. Raises Problem."""
    with disk_problem(
        f"Copies of documents cannot be deleted in {folder}",
        "Check that you may write there, then try again.",
    ):
        for copy in folder.iterdir() if folder.is_dir() else ():
            if copy.stem not in known:
                copy.unlink()


def keep_copy(original: Path | bytes, folder: Path, document: Document) -> None:
    """Keep a private copy of a PDF, unless the file has changed, or of a picture as it was read.
    Raises Problem."""
    copy = copy_of(folder, document)
    if copy.exists():
        return
    with disk_problem(
        f"{document.name} cannot be copied to {folder}",
        "Check that the disk has space and that you may write there, then attach it again.",
    ):
        data = original if isinstance(original, bytes) else original.read_bytes()
        if document.format == "pdf" and hashlib.sha256(data).hexdigest() != document.digest:
            return
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with replacing(copy) as partial:
            partial.touch(mode=0o600)
            partial.write_bytes(data)


def copy_of(folder: Path, document: Document) -> Path:
    """Return the path of the copy of a PDF or a picture, which may not exist."""
    return folder / f"{document.digest}.{'pdf' if document.format == 'pdf' else 'png'}"


def packed(sent: Sent) -> bytes:
    return zlib.compress(clean(sent.to_json()).encode())


def unpacked(blob: bytes | None) -> Sent | None:
    """Return what `packed` wrote; None if it is damaged: the message is then without documents."""
    if blob is not None:
        with suppress(zlib.error, ValueError, RecursionError):
            return sent_from_json(zlib.decompress(blob).decode())
    return None


def _documents(
    connection: sqlite3.Connection, query: str, conversation: int
) -> tuple[tuple[int, Document], ...]:
    rows = connection.execute(query, (conversation,)).fetchall()
    try:
        return tuple(
            (number, document_from_json(zlib.decompress(content).decode()))
            for number, content in rows
        )
    except (zlib.error, ValueError, RecursionError) as error:
        raise Problem(
            f"A document of this conversation cannot be read ({str(error)[:80]}).",
            "The sent message is complete. Attach the file again.",
        ) from error


def _stored(connection: sqlite3.Connection, document: Document) -> int:
    """Return the row of a document, after adding it if needed."""
    content = zlib.compress(clean(document.to_json()).encode())
    row = connection.execute(
        "SELECT id FROM documents WHERE digest = ? AND content = ?", (document.digest, content)
    ).fetchone()
    if row is not None:
        return int(row[0])
    return insert(connection, "documents", digest=document.digest, content=content)


def _insert(connection: sqlite3.Connection, *row: int | None) -> None:
    names = ("conversation", "message", "number", "document")
    insert(connection, "attachments", **dict(zip(names, row, strict=True)))
