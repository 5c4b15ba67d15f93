"""When a document is slow to read, and how much is read in good time."""

from dataclasses import replace

from engine.documents import Document, Section
from engine.documents.plan import Plan
from engine.documents.prompt import Attached, Passage, write_message
from engine.documents.slow import SLOW_SECONDS, is_slow, room_in_time, to_read

PAGE = Document("a.pdf", "pdf", "00", (Section("page", 1, "The first page."),))
WHOLE = write_message("Why?", [Attached(1, PAGE)])
PICTURE = write_message("Why?", [Attached(1, replace(PAGE, pixels=(10, 10)))])
IN_PASSAGES = write_message("Why?", [Attached(1, PAGE, (Passage(0, 3),), among=2)])


def test_a_document_is_slow_that_takes_long_whole_or_in_passages():
    assert is_slow(Plan(WHOLE, tokens=(4000,)), 0.01)
    assert not is_slow(Plan(WHOLE, tokens=(4000,)), 0.001)
    assert not is_slow(Plan(WHOLE, tokens=(2000,)), 1.0)
    assert is_slow(Plan(IN_PASSAGES, tokens=(4000,)), 1.0)
    assert not is_slow(Plan(IN_PASSAGES, tokens=(room_in_time(0.003),)), 0.003)
    assert not is_slow(Plan(PICTURE, tokens=(4000,)), 1.0)
    assert not is_slow(Plan(WHOLE, tokens=(4000,)), 0.0)

    # What is read in good time is never nothing.
    assert room_in_time(0.001) == SLOW_SECONDS * 1000
    assert room_in_time(1.0) == room_in_time(0.0) > 1000


def test_the_time_in_words():
    for seconds, words in (
        (0.2, "about a second to read"),
        (4.4, "about 4 s to read"),
        (43, "about 45 s to read"),
        (200, "about 3 min to read"),
    ):
        assert to_read(seconds) == words
