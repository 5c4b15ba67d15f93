"""Messages are planned in a thread, which cuts each document of a conversation once."""

from contextlib import closing

from app.documents.planner import MessageToPlan, Planner
from engine.documents.passages import PassageIndex
from tests.support.app.attached import text_document

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
