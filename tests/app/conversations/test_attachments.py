"""Documents are kept with what was sent of them, and go when no one refers to them any more."""

import hashlib
import json
import zlib
from base64 import b64encode
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from unittest import mock

import pytest

from app.conversations import exchange
from app.conversations.chat_archive import ChatArchive
from app.conversations.database import transaction
from app.conversations.records import chat_of
from app.conversations.store import Store
from engine.conversation import kept_blocks
from engine.conversation.kept_blocks import KeptBlocks
from engine.documents import Document, Section
from engine.documents.page_picture import png
from engine.documents.prompt import Attached, write_message
from models.errors import Problem
from tests.support.app.store_samples import raw

PDF = b"%PDF-1.4 three pages"
QUESTION = "What does it say?"


def document(name="plan.pdf", text="The roof leaks.", data=PDF):
    pages = (Section("page", 1, text), Section("page", 2, "So does the cellar."))
    return Document(name, "pdf", hashlib.sha256(data).hexdigest(), pages, without_text=(3,))


def ask(store, conversation, text, **more):
    """The conversation, and the question with its answer, which is begun."""
    record, branch = store.ask(conversation, text, target="t", drafter="d", **more).result()
    return record, *branch[-2:]


def sent_with(store, *documents):
    """Sends a question with these documents in a new conversation."""
    conversation = store.create().result().id
    attached = [Attached(store.attach(conversation, one).result(), one) for one in documents]
    record, question, _ = ask(store, conversation, QUESTION, sent=write_message(QUESTION, attached))
    return record, question


def rows(path, table):
    with raw(path) as connection:
        (count,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
    return int(count)


def test_what_is_attached_and_what_was_sent_of_it_is_there_after_a_crash(path):
    other = document("other.pdf")
    with Store.open(path) as store:
        conversation = store.create().result().id
        assert store.attach(conversation, document()).result() == 1
        assert store.attach(conversation, other).result() == 2
        assert store.attach(conversation, document()).result() == 1
    with Store.open(path) as store:
        unsent = store.unsent_documents(conversation).result()
        assert unsent == ((1, document()), (2, other))
        store.detach(conversation, 1).result()
        assert store.unsent_documents(conversation).result() == unsent[1:]
        assert store.documents_of(conversation).result() == unsent[1:]
        sent = write_message(QUESTION, [Attached(2, other)])
        _, question, _ = ask(store, conversation, QUESTION, sent=sent)
    assert rows(path, "documents") == 1
    with Store.open(path) as store:
        (found, _) = store.branch(conversation).result()
        assert found == question
        assert found.sent == sent
        assert (found.content, found.as_chat[0].content) == (QUESTION, sent.text)
        assert store.unsent_documents(conversation).result() == ()
        assert store.documents_of(conversation).result() == ((2, other),)
        hits = store.search("does it say").result()
        assert {hit.conversation for hit in hits} == {conversation}
        assert store.search("cellar").result() == (), "only the user's words are found"


def test_another_version_keeps_the_documents_and_their_numbers(store):
    record, question = sent_with(store, document())
    sent = question.sent.asked("And?")
    _, other, _ = ask(store, record.id, "And?", instead_of=question.id, sent=sent)
    assert other.sent == write_message("And?", [Attached(1, document())])
    _, again, _ = ask(store, record.id, "So?", instead_of=other.id)
    assert again.sent == write_message("So?", [Attached(1, document())])
    assert store.attach(record.id, document()).result() == 1
    assert store.attach(record.id, document(text="Another.")).result() == 2
    broken = document(text="half \ud83d")  # is sent as it is stored
    number = store.attach(record.id, broken).result()
    stored = dict(store.unsent_documents(record.id).result())[number]
    assert len(stored.text) == len(broken.text)
    sent = write_message("x", [Attached(number, broken)])
    _, question, _ = ask(store, record.id, "x", sent=sent)
    assert question.as_chat[0].content.encode()


@pytest.fixture
def original(tmp_path):
    """The file that `document` was read from."""
    path = tmp_path / "plan.pdf"
    path.write_bytes(PDF)
    return path


def test_a_private_copy_goes_with_the_last_attachment(store, original, monkeypatch):
    one, other = (store.create().result().id for _ in range(2))
    for conversation in (one, other):
        store.attach(conversation, document(), original=original).result()
    copy = store.copy_of(document())
    assert copy.read_bytes() == PDF
    assert copy.stat().st_mode & 0o077 == 0
    assert copy.parent.stat().st_mode & 0o077 == 0
    store.detach(one, 1).result()
    assert copy.exists()
    temporary = store.create_temporary().result().id
    store.attach(temporary, document()).result()
    store.detach(temporary, 1).result()
    assert copy.exists()

    @contextmanager
    def full(connection):
        with transaction(connection):
            yield
            raise Problem("The disk is full.", "Free some space.")

    with monkeypatch.context() as disk:
        disk.setattr("app.conversations.store.transaction", full)
        with pytest.raises(Problem):
            store.detach(other, 1).result()
    assert copy.exists(), "it goes after the change is on the disk"
    assert store.unsent_documents(other).result() == ((1, document()),)
    store.detach(other, 1).result()
    assert list(store.attachments.iterdir()) == []
    assert store.copy_of(document()) is None


def test_what_the_engine_keeps_goes_with_a_conversation_or_a_document_or_neither(store, tmp_path):
    """It is kept of two documents, read together and apart."""
    store.kept = tmp_path / "kept"
    _, first = sent_with(store, document())
    one, other = document().digest, document(data=b"other").digest
    for delete in (
        lambda record: store.delete_document(record.id, 1),
        lambda record: store.delete(record.id),
    ):
        record, _ = sent_with(store, document(), document("other.pdf", data=b"third"))
        for digests in ((one,), (other,), (one, other)):
            KeptBlocks(store.kept).begin(digests)
        folders, listed = list(store.kept.glob("*/")), store.conversations().result()
        assert len(folders) == 3
        with mock.patch.object(kept_blocks, "forget", side_effect=OSError(13, "no")):
            assert isinstance(delete(record).exception(), Problem)
        assert store.conversations().result() == listed
        assert store.documents_of(record.id).result()[0] == (1, document())
        delete(record).result()
        (left,) = store.kept.glob("*/")
        assert left in folders
        assert store.message(first.id).result() == first


def test_of_a_file_that_is_gone_nothing_is_attached_and_of_a_changed_one_no_copy(store, original):
    conversation = store.create().result().id
    gone = original.with_name("gone.pdf")
    attempt = store.attach(conversation, document(), original=gone)
    assert isinstance(attempt.exception(), Problem)
    assert store.unsent_documents(conversation).result() == ()
    original.write_bytes(b"another than was read")
    store.attach(conversation, document(), original=original).result()
    assert store.copy_of(document()) is None


def test_a_deleted_document_leaves_a_line_here_and_stays_elsewhere(store, original):
    other = document("other.pdf", "The garden.", b"other")
    record, asked = sent_with(store, document(), other)
    store.finish_answer(asked.id + 1, "It leaks.", (), state="complete").result()
    elsewhere = sent_with(store, document(), other)[0], store.duplicate(record.id).result()
    store.attach(record.id, document(), original=original).result()
    store.delete_document(record.id, 1).result()
    (question, _) = store.branch(record.id).result()
    assert "roof" not in question.as_chat[0].content
    deleted, kept = question.sent.documents
    assert (deleted.name, deleted.ranges) == ("plan.pdf", ())
    assert question.sent.given(1).count("\n") == 2
    whole = write_message(QUESTION, [Attached(2, other)]).given(2)
    assert question.sent.given(2) == whole
    assert question.sent.source(question.as_chat[0].content.index("garden")) == (2, 4)
    assert kept.ranges
    assert store.documents_of(record.id).result() == ((2, other),)
    for left in elsewhere:
        assert store.branch(left.id).result()[0].sent == asked.sent
        assert store.documents_of(left.id).result() == ((1, document()), (2, other))
        assert store.copy_of(document()).exists()
        store.delete_document(left.id, 1).result()
    assert store.copy_of(document()) is None
    assert store.attach(record.id, document()).result() == 3, "a number means one document"


DOCUMENT = {"number": 1, "name": "a"}
WRONG = (
    "text",
    {"text": 1},
    {"text": "short", "documents": [DOCUMENT | {"ranges": [], "end": 9}]},
    {
        "text": "short",
        "documents": [DOCUMENT | {"ranges": [{"start": 0, "offset": 0, "length": 9}], "end": 5}],
    },
)


def test_an_export_has_the_names_and_what_was_sent_which_is_checked(store):
    record, question = sent_with(store, document())
    store.finish_answer(question.id + 1, "It leaks.", (), state="complete").result()
    chat = store.chat(record.id).result()
    written = json.loads(exchange.to_json(chat))
    assert written["messages"][0]["content"] == question.as_chat[0].content
    assert question.as_chat[0].content in exchange.to_markdown(chat)
    (imported,) = store.add(exchange.parse(json.dumps(written).encode())).result()
    (same, _) = store.branch(imported.id).result()
    assert (same.content, same.sent) == (question.content, question.sent)
    assert store.documents_of(imported.id).result() == ()
    assert store.attach(imported.id, document()).result() == 2, "number 1 was sent"
    for wrong in WRONG:
        written["tree"][0]["sent"] = wrong
        with pytest.raises(Problem):
            exchange.parse(json.dumps(written).encode())


def test_what_is_damaged_loses_the_documents_and_not_the_message(path):
    with Store.open(path) as store:
        record, _ = sent_with(store, document())
    with raw(path) as connection:
        connection.execute("UPDATE messages SET sent = x'00' WHERE sent IS NOT NULL")
        connection.execute("UPDATE documents SET content = ?", (zlib.compress(b"{}"),))
    with Store.open(path) as store:
        (question, _) = store.branch(record.id).result()
        assert (question.content, question.sent) == (QUESTION, None)
        assert isinstance(store.documents_of(record.id).exception(), Problem)


def test_a_deleted_messages_documents_stay_until_it_is_gone_for_good(store, path, original):
    record, question = sent_with(store, document())
    store.attach(record.id, document(), original=original).result()
    store.detach(record.id, 1).result()
    store.finish_answer(question.id + 1, "It leaks.", (), state="complete").result()
    change = store.delete_message(question.id).result()
    other = document("other.pdf", data=b"other")
    assert store.attach(record.id, other).result() == 2, "number 1 is that of the deleted one"
    store.detach(record.id, 2).result()
    assert store.documents_of(record.id).result() == ()
    store.undo(change).result()
    assert store.documents_of(record.id).result() == ((1, document()),)
    assert store.message(question.id).result().sent == question.sent
    change = store.delete_message(question.id).result()
    store.delete_document(record.id, 1).result()
    store.undo(change).result()
    assert "roof" not in store.message(question.id).result().as_chat[0].content
    store.erase(store.delete_message(question.id).result()).result()
    assert store.copy_of(document()) is None
    record, question = sent_with(store, document())
    store.attach(record.id, document(), original=original).result()
    change = store.delete(record.id).result()
    store.purge().result()
    store.undo(change).result()
    assert store.documents_of(record.id).result() == ((1, document()),)
    assert store.copy_of(document()) is not None
    store.delete(record.id).result()
    assert store.purge(older_than=timedelta(0)).result() == 1
    assert store.copy_of(document()) is None
    store.close()
    assert (rows(path, "documents"), rows(path, "attachments")) == (0, 0)


def picture_in(folder, width=3):
    """A picture, and its file in the folder, as they are when they were read."""
    rgb = bytes(range(6 * width))
    digest = hashlib.sha256(f"{width} 2\n".encode() + rgb).hexdigest()
    data = png(rgb, width=width, height=2, row_bytes=3 * width, effort=1)
    (folder / f"{digest}.png").write_bytes(data)
    return Document("pic.png", "picture", digest, (), pixels=(width, 2))


def with_picture(store, folder):
    drawn = picture_in(folder)
    conversation = store.create(title="Boats").result().id
    number = store.attach(conversation, drawn, original=folder / f"{drawn.digest}.png").result()
    sent = write_message(QUESTION, [Attached(number, drawn)])
    record, _, answer = ask(store, conversation, QUESTION, sent=sent)
    store.finish_answer(answer.id, "A boat.", (), state="complete").result()
    store.edit(answer.id, "A ship.").result()
    return record, drawn


def test_pictures_are_exported_and_come_back_but_no_others_and_what_is_left_out_is_named(
    store, tmp_path
):
    record, drawn = with_picture(store, tmp_path)
    chat = store.chat(record.id).result()
    one, several = tmp_path / "one.json", tmp_path / "all.zip"
    one.write_text(exchange.to_json(chat, store.attachments))
    archive = ChatArchive(several, store.attachments)
    archive.add([chat, chat])
    archive.finish()
    assert "[picture: pic.png]" in exchange.to_markdown(chat)
    for file in (one, several):
        with Store.open(tmp_path / file.stem / "c.sqlite") as other:
            added = other.add(exchange.read_chats(file)).result()
            branch = other.branch(added[-1].id).result()
            (shown,) = chat_of(branch, other.attachments)[0].pictures
            assert Path(shown.path).read_bytes() == (tmp_path / f"{drawn.digest}.png").read_bytes()
            other.purge().result()
            assert other.documents_of(added[-1].id).result() == ((1, drawn),)
            assert Path(shown.path).exists(), "it is attached as here"
    for folder, whole, lacks in (  # messages, pictures, parts of documents, rounds
        (store.attachments, True, [0, 0, 0, 2]),
        (tmp_path / "none", True, [0, 1, 0, 2]),
        (store.attachments, False, [1, 1, 0, 1]),
    ):
        assert [*exchange.left_out(chat, folder, whole=whole).values()] == lacks
    written = json.loads(one.read_text())
    with Store.open(tmp_path / "other" / "c.sqlite") as other:
        for data in (b"", b"no picture", b"\x89PNG" + bytes(99), zlib.compress(bytes(10**6))):
            written["pictures"][drawn.digest] = b64encode(bytes(41) + data).decode()
            (added,) = other.add(exchange.parse(json.dumps(written).encode())).result()
            branch = other.branch(added.id).result()
            assert chat_of(branch, other.attachments)[0].pictures == (), data[:9]
    written["pictures"][drawn.digest] = "x"
    with pytest.raises(Problem):
        exchange.parse(json.dumps(written).encode())
