"""Search: what is found, what is not, and that anything may be typed."""

from datetime import timedelta
from itertools import product

import pytest

from app.conversations.records import Entry, ExportedChat, SearchFilter
from app.conversations.store import Store
from engine.events import Text
from engine.stretches import Stretch
from tests.support.app.store_samples import answered, asked, raw


def found(store, text):
    return [(hit.conversation, hit.message) for hit in store.search(text).result()]


def _check(connection):
    for index in ("message_words", "title_words"):
        connection.execute(f"INSERT INTO {index}({index}, rank) VALUES ('integrity-check', 1)")


def shown(hit):
    return "".join(f"[{part.text}]" if part.match else part.text for part in hit.excerpts)


@pytest.fixture
def sky(store):
    question = asked(store, 'Why is the "blue" sky\nso: very blue?')
    answered(store, question, "Rayleigh scattering, naïvely. 🎉 日本語の空は青い. x == y -- 100%")
    store.rename(question.conversation, "Weather and colours").result()
    return question.conversation


def test_messages_are_found_and_nothing_typed_is_an_operator(store, sky):
    typed = (
        *("blue", "BLUE", "sky blue", "blue sky", "blu", "why bl", "very, blue!", "  so\tvery  "),
        *('"blue"', "'sky'", '"', "sky*", "blue\0", "(blue) + sky"),
        *("scatter", "naive", "NAÏVE", "🎉", "青い", "日本", "空は", "==", "100%", "--", "x == y"),
        *("cattering", "ayleigh scat", "blue " * 100_000),
    )
    hits = {text: store.search(text).result() for text in typed}
    places = {text: [(hit.conversation, bool(hit.message)) for hit in hits[text]] for text in typed}
    assert places == {text: [(sky, True)] for text in typed}
    typed = (
        *("", " ", "\0", "green", "green sky", "NOT blue", "blue OR green", "_", "1_%0", "%%"),
        *("content:blue", "NEAR(blue sky)", "^blue NOT", "-blue green", "(", "*", "\ud800", "🚀"),
        "%" * 100_000,
    )
    assert [text for text in typed if found(store, text)] == []
    pieces = [*"\"'()*:^-+{}\\%_ \0\n\ud800", "AND", "NEAR", "sky", "content", "🎉", "日本"]
    for typed in product(pieces, repeat=2):  # anything may be typed
        for hit in store.search("".join(typed)).result():
            assert all(part.text for part in hit.excerpts), typed


EXCERPTS = (  # a message, what is searched for, and the excerpt: with and without points
    ("אֶת הַדִּירָה רָאִיתִי", "הדירה", "אֶת [הַדִּירָה] רָאִיתִי"),
    ("את הדירה ראיתי", "הַדִּירָה", "את [הדירה] ראיתי"),
    ("يَدْفَعُ الإِيـجَار", "الإيجار", "يَدْفَعُ [الإِيـجَار]"),
    ("पालतू जानवर और **किराया** ४५", "किराया 45", "पालतू जानवर और [किराया] [४५]"),
    ("किराया** वह", "वह", "किराया [वह]"),
    ("वह काम करता", "काम", "वह [काम] करता"),
    ("വാടകക്കാരൻ വന്നു", "വാടകക്കാരന്\u200d", "[വാടകക്കാരൻ] വന്നു"),
    ("จ่ายค่าเช่าแล้ว", "ค่าเช่า", "จ่าย[ค่าเช่า]แล้ว"),
    # without the marks of Markdown
    ("### The needle\n\n**Bold** and `code` words.", "needle", "The [needle] Bold and code words."),
    ("| a | needle |\n|---|:--:|\n| 1 | 2 |", "needle", "| a | [needle] | | 1 | 2 |"),
    ("```python\nx = y ** needle\n```", "needle", "x = y ** [needle]"),
    ("**A long way** to **青い**", "青い", "A long way to [青い]"),
    ("- one needle\n- *two*", "needle", "one [needle] two"),
    ("snake_case_name needle __init__", "needle", "snake_case_name [needle] __init__"),
)


def test_an_excerpt_marks_what_was_found_with_other_points_and_without_markdown(store):
    for text, words, excerpt in EXCERPTS:
        asked(store, text)
        assert shown(store.search(words, limit=1).result()[-1]) == excerpt
    assert found(store, "कम") == found(store, "\u00ad") == found(store, "ـ") == []
    asked(store, "word " * 30 + "**bold** nadel **" + "more " * 30 + "**")
    assert "*" not in shown(store.search("nadel").result()[-1])
    for text, words, excerpt in (
        ("the pin,\n\nagain pins", "pin", "the [pin], again [pins] more"),
        ("unbelievable 100%!", "LIEV %!", "unbe[liev]able 100[%!] more"),
    ):
        asked(store, "first line\n" + "filler " * 50 + text + " more" * 50)
        (hit,) = store.search(words).result()
        assert excerpt in shown(hit)
        assert (shown(hit)[0], shown(hit)[-1]) == ("…", "…")
        assert len(shown(hit)) < 200


def test_titles_come_first_and_the_newest(store, sky):
    later = asked(store, "What weather!")
    hits = store.search("weather").result()
    assert [(hit.conversation, hit.message) for hit in hits] == [
        (later.conversation, None),
        (sky, None),
        (later.conversation, later.id),
    ]
    assert shown(hits[1]) == "[Weather] and colours"
    ids = [asked(store, f"same {number}").id for number in range(5)]
    messages = [hit.message for hit in store.search("same", limit=3).result() if hit.message]
    assert messages == ids[:1:-1]


def test_the_marks_of_a_template_are_no_words(path, store):
    question = asked(store, "<think> is a mark")
    begun = store.begin_answer(question.id, target="t", drafter="d").result()
    text = "<|channel>Näh.<channel|>Four 日本."
    parts = (Stretch("mark", 10), Stretch("reasoning", 4), Stretch("mark", 10))
    events = (Text("g", text, stretches=parts),)
    store.finish_answer(begun.id, text, events, state="complete").result()
    said = Entry(parent=None, role="assistant", content="<think>\nHmm.\n</think>\n\nFive.")
    store.add([ExportedChat(title="", entries=(said,), leaf=0)]).result()
    assert found(store, "channel") == []
    assert found(store, "<|channel") == []
    for words, excerpt in (
        ("nah", "[Näh]. Four 日本."),
        ("four", "Näh. [Four] 日本."),
        ("日", "Näh. Four [日]本."),
        ("five", "Hmm. [Five]."),
        ("think", "<[think]> is a mark"),
    ):
        assert shown(store.search(words).result()[-1]) == excerpt
    store.close()
    with raw(path) as connection:
        _check(connection)


def test_the_index_follows_every_change(path, store, sky):
    question = asked(store, "question")
    conversation = question.conversation
    answer = store.begin_answer(question.id, target="t", drafter="d").result()
    store.flush_answer(answer.id, "zebra", ()).result()
    assert found(store, "zebra") == [(conversation, answer.id)]
    store.finish_answer(answer.id, "giraffe", (), state="complete").result()
    assert found(store, "zebra") == []
    assert found(store, "giraffe") == [(conversation, answer.id)]
    edited = store.edit(question.id, "other").result()
    assert found(store, "giraffe") == [(conversation, answer.id)]  # on another branch
    assert found(store, "other") == [(conversation, edited.id)]
    store.rename(conversation, "Animals").result()
    assert found(store, "animal") == [(conversation, None)]
    before = found(store, "blue")
    store.archive(sky, archived=True).result()
    assert found(store, "blue") == before
    deletion = store.delete(sky).result()
    for text in ("blue", "weather", "🎉"):
        assert found(store, text) == []
    store.undo(deletion).result()
    assert found(store, "blue") == before != []
    store.delete(conversation).result()
    assert store.purge(older_than=timedelta(0)).result() == 1
    store.close()
    with raw(path) as connection:
        _check(connection)


@pytest.mark.parametrize("text", ["blue", "🎉"])  # by the index, and through the texts
def test_a_search_is_narrowed_by_age_and_model(store, clock, text):
    old = asked(store, f"old {text}")
    answer = answered(store, old, f"an answer, {text}")
    clock.now += timedelta(days=10)
    since = clock.now
    new = asked(store, f"new {text}")

    def among(among):
        hits = store.search(text, among=among).result()
        return {(hit.conversation, hit.message) for hit in hits}

    assert among(SearchFilter(since)) == {(new.conversation, None), (new.conversation, new.id)}
    assert among(SearchFilter(None, "Qwen3")) == {
        (old.conversation, None),
        (old.conversation, answer.id),
    }
    assert among(SearchFilter(since, "Qwen3")) == set()
    assert len(among(SearchFilter())) == 5
    assert store.targets().result() == ("Qwen3",)


def test_a_broken_index_is_made_anew(path):
    with Store.open(path) as store:
        question = asked(store, "needle")
    with raw(path) as connection:
        connection.execute("UPDATE message_words_data SET block = x'00112233445566778899'")
    with Store.open(path) as store:
        assert store.notice is None
        assert found(store, "needle") == [
            (question.conversation, None),
            (question.conversation, question.id),
        ]
    with raw(path) as connection:
        connection.execute("UPDATE message_words_data SET block = x'00112233445566778899'")
    with Store.open(path) as store:
        said = store.say(question.conversation, "haystack").result()
        assert found(store, "haystack") == [(question.conversation, said.id)]
