"""Files are read one after the other, for the conversation that they were given to; messages are
planned in a thread, which cuts each document of a conversation once."""

from contextlib import closing
from pathlib import Path

import pytest

from app.conversations.store import Store
from app.documents.attachments import MOST_AT_ONCE, Attachments
from app.documents.planner import MessageToPlan, Planner
from engine.documents.passages import PassageIndex
from tests.support.app.attached import Reader, file_in, text_document
from tests.support.app.talk import refuse


class Desk:
    """What is attached to the messages of a store, with nothing of a window."""

    def __init__(self, folder):
        self.store = Store.open(folder / "conversations.sqlite")
        self.reader = Reader()
        self.made = []
        self.attachments = Attachments(self.store, read=self.reader, stored=self._stored)
        self.problems = []
        self.attached = []
        self.attachments.failed.connect(self.problems.append)
        self.attachments.attached.connect(lambda one: self.attached.append(one.name))

    def _stored(self):
        record = yield self.store.create()
        self.made.append(record.id)
        return record.id

    @property
    def names(self):
        return [one.name for one in self.attachments.all]

    @property
    def numbers(self):
        return [one.number for one in self.attachments.all]

    def stored(self, conversation):
        return [one.name for _, one in self.store.unsent_documents(conversation).result()]


@pytest.fixture
def desk(tmp_path, qapp):
    desk = Desk(tmp_path)
    yield desk
    desk.reader.go_on.set()
    desk.attachments.close()
    desk.store.close()


@pytest.fixture
def files(tmp_path):
    return lambda *names: [file_in(tmp_path, name, f"The text of {name}") for name in names]


def test_several_are_read_in_their_order_and_stored(desk, until, tmp_path, files):
    names = ["a.txt", "broken.txt", "b.txt", "blank.txt"]
    desk.attachments.add([*files(*names[:3]), file_in(tmp_path, "blank.txt", " \n")])
    assert desk.names == names
    assert desk.attachments.reading
    until(lambda: not desk.attachments.reading)
    assert desk.reader.read == names
    assert desk.attached == ["a.txt", "b.txt"]
    assert desk.names == ["a.txt", "b.txt", "broken.txt", "blank.txt"]
    assert desk.numbers == [1, 2, 0, 0]
    assert all(one.problem.remedy for one in desk.attachments.all[2:])
    assert len(desk.made) == 1, "a new conversation is made once"
    assert desk.stored(desk.made[0]) == ["a.txt", "b.txt"]
    for place in (2, 0):
        desk.attachments.remove(desk.attachments.all[place])
    assert desk.names == ["b.txt", "blank.txt"]
    assert desk.stored(desk.made[0]) == ["b.txt"]


def test_a_file_belongs_to_the_conversation_it_was_given_to_and_goes_with_one_that_is_not_stored(
    desk, until, files
):
    one, other = (desk.store.create().result().id for _ in range(2))
    desk.attachments.add(files("slow.txt"))
    until(lambda: desk.reader.read)
    desk.attachments.show(one)
    until(lambda: desk.reader.cancelled)
    desk.attachments.add(files("slow.txt"))
    until(lambda: [(one.read_files, one.files) for one in desk.attachments.all] == [(3, 40)])
    desk.attachments.show(other)
    assert desk.names == []
    desk.reader.go_on.set()
    until(lambda: desk.stored(one) == ["slow.txt"])
    assert (desk.names, desk.attached, desk.stored(other)) == ([], [], [])
    desk.attachments.show(one)
    until(lambda: desk.names == ["slow.txt"])
    desk.attachments.show(None)
    desk.reader.go_on.clear()
    desk.attachments.add(files("slow.txt"))
    until(lambda: desk.reader.read[2:])
    made = desk.store.create().result().id
    desk.attachments.name(made)
    desk.reader.go_on.set()
    until(lambda: desk.stored(made) == ["slow.txt"])
    assert desk.made == []


def test_what_could_not_be_stored_says_so_and_a_thousand_files_are_not_read_one_by_one(
    desk, until, files, monkeypatch
):
    desk.attachments.add([Path(f"{number}.txt") for number in range(MOST_AT_ONCE + 1)])
    assert desk.names == []
    assert desk.problems.pop().remedy
    desk.attachments.add(files("b.txt"))
    until(lambda: desk.numbers == [1])
    monkeypatch.setattr("app.conversations.attachments.insert", refuse)
    monkeypatch.setattr("app.conversations.attachments.detach", refuse)
    desk.attachments.add(files("a.txt"))
    until(lambda: not desk.attachments.reading)
    desk.attachments.remove(desk.attachments.all[0])
    until(lambda: desk.problems and desk.numbers == [1, 0])
    assert desk.attachments.all[1].problem.remedy == desk.problems[0].remedy == "Make room."


LONG, OTHER = (
    text_document("long.txt", "\n\n".join(f"Clause {n} {says} {n * 7}." for n in range(900)))
    for says in ("is about", "says nothing more of the lease than")
)


def message(question, *documents, conversation=1):
    return MessageToPlan(
        conversation,
        question,
        lambda: dict(enumerate(documents, start=1)),
        count=lambda text: len(text) // 4,
        room=lambda count: 2000,
    )


def test_a_document_is_cut_once_while_the_user_types_until_it_is_gone(monkeypatch):
    cut, passages = [], PassageIndex.passages

    def spy(self, number, document):
        if number not in self._passages:
            cut.append(number)
        return passages(self, number, document)

    monkeypatch.setattr(PassageIndex, "passages", spy)
    with closing(Planner()) as planner:
        for question in ("What", "What does", "What does clause 77 say?"):
            planner.plan(message(question, LONG)).result()
        assert cut == [1]
        planner.plan(message("What?", LONG, conversation=2)).result()
        assert cut == [1, 1]
        planner.plan(message("What?", LONG, LONG)).result()
        planner.plan(message("What?", LONG)).result()
        assert cut == [1, 1, 1, 2, 1], "a number may belong to another document then"
        sent = planner.plan(message("What does clause 800 say?", OTHER)).result().sent
        assert f"lease than {800 * 7}." in sent.text, "also without a plan between"
        planner.close()  # twice does no harm
