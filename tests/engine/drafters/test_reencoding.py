"""Whatever the target commits, and however it comes, the drafter's tokens say the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.drafters.reencoding import Reencoding, Writing
from tests.support.engine.writings import listed, stories, unigram

LONG = "The drafter reads 12345 words, über größere Flüsse.\n\nSo does the target 🌈 there. " * 5
UNSPACED = "日本語の文章も少しだけ" * 25
KINDS = ("bytes", "trained", "stories")


def spelled(writing, tokens):
    return b"".join(writing.spelled.get(token, b"") for token in tokens)


def state(text):
    return list(text.tokens), text.settled, text.waiting


def fresh(target, drafter, tokens):
    text = Reencoding(target, drafter)
    text.follow(tokens)
    return text


def said(target, tokens):
    """The text up to a character that is not complete, U+FFFD for what is none. What stands between
    special tokens is text by itself."""
    parts = [b""]
    for token in tokens:
        if token in target.special.values():
            parts.append(b"")
        parts[-1] += target.spelled.get(token, b"")
    *before, last = parts
    texts = [part.decode(errors="replace") for part in before]
    return "".join([*texts, last[: len(last) - unfinished(last)].decode(errors="replace")]).encode()


def unfinished(part):
    """How many bytes at the end begin a character that is not complete."""
    for count in (3, 2, 1):
        try:
            part[-count:].decode()
        except UnicodeDecodeError as error:
            if error.reason == "unexpected end of data" and error.start == 0:
                return min(count, len(part))
    return 0


PAIRS = [(one, other) for one in KINDS for other in KINDS]
commits = st.one_of(
    st.lists(st.integers(0, 511), max_size=120),  # any tokens: bad characters, special ones, none
    st.text(max_size=80),
    st.lists(
        st.sampled_from(["the", " words", "\n", "def", "ü", "日本", "🌈", "  "]), max_size=200
    ),
)


def tokens_of(writing, drawn):
    if isinstance(drawn, str):
        return writing.tokens(drawn)
    assert isinstance(drawn, list)
    if all(isinstance(one, int) for one in drawn):
        return drawn
    return writing.tokens("".join(drawn))


@pytest.mark.quick(4)
@pytest.mark.parametrize(("target", "drafter"), PAIRS)
@given(data=st.data())
def test_it_says_what_was_committed_in_whatever_steps(writings, target, drafter, data):
    ours, theirs = writings[target], writings[drafter]
    tokens = tokens_of(ours, data.draw(commits))
    whole = fresh(ours, theirs, tokens)
    assert spelled(theirs, whole.tokens) == said(ours, tokens)
    steps = sorted(data.draw(st.lists(st.integers(0, len(tokens)), max_size=8)))
    text = Reencoding(ours, theirs)
    for step in [*steps, len(tokens)]:
        text.follow(tokens[:step])
    assert state(text) == state(whole)


@pytest.mark.quick(4)
@pytest.mark.parametrize(("target", "drafter"), PAIRS)
@given(data=st.data())
def test_what_was_taken_back_leaves_no_trace(writings, target, drafter, data):
    ours, theirs = writings[target], writings[drafter]
    text, tokens = Reencoding(ours, theirs), list[int]()
    for _ in range(data.draw(st.integers(1, 4))):
        tokens = tokens + tokens_of(ours, data.draw(commits))
        text.follow(tokens)
        kept = data.draw(st.integers(0, len(tokens)))
        tokens = tokens[:kept]
        text.rewind(kept)
        assert state(text) == state(fresh(ours, theirs, tokens))


@pytest.mark.quick(2)
@pytest.mark.parametrize("written", [LONG, UNSPACED])
@pytest.mark.parametrize("drafter", KINDS[::-1])
def test_a_long_text_token_by_token(writings, drafter, written):
    ours, theirs = writings["bytes"], writings[drafter]
    tokens, text = ours.tokens(written), Reencoding(ours, theirs)
    for count in range(len(tokens) + 1):
        text.follow(tokens[:count])
        assert text.waiting == (unfinished(written.encode()[:count]) > 0)
    assert state(text) == state(fresh(ours, theirs, tokens))
    assert spelled(theirs, text.tokens) == written.encode()
    for count in range(len(tokens), 0, -7):
        text.rewind(count)
        assert state(text) == state(fresh(ours, theirs, tokens[:count]))


def test_words_are_written_as_they_are_in_the_whole_text(writings):
    """Where a text has words, no place shows where it was cut."""
    trained = writings["trained"]
    text = fresh(writings["bytes"], trained, list(LONG.encode()))
    assert text.settled > 100
    assert text.tokens == trained.tokens(LONG)
    assert len(text.tokens) < len(LONG) / 1.5


@pytest.mark.parametrize("written", [LONG, UNSPACED])
def test_the_work_of_a_step_does_not_grow_with_the_text(writings, written, monkeypatch):
    asked = []
    tokens_of = Writing.tokens

    def counted(self, text):
        asked.append(len(text))
        return tokens_of(self, text)

    ours, theirs = writings["bytes"], writings["trained"]
    tokens, text = ours.tokens(3 * written), Reencoding(ours, theirs)
    monkeypatch.setattr(Writing, "tokens", counted)
    most = []
    for count in range(1, len(tokens) + 1):
        asked.clear()
        text.follow(tokens[:count])
        most.append(sum(asked))
    assert max(most) < 400
    assert max(most[len(most) // 2 :]) <= max(most[: len(most) // 2])


def test_special_tokens_are_those_of_the_same_name_or_nothing(tmp_path):
    letters = {"a": 0, "b": 1}
    ours = listed(tmp_path / "ours", letters, special=["<user>", "<only ours>", "<bot>"])
    theirs = listed(tmp_path / "theirs", {"b": 0, "a": 1}, special=["<bot>", "<user>"])
    text = fresh(ours, theirs, [2, 0, 1, 3, 0, 4, 1])
    assert text.tokens == [3, 1, 0, 1, 2, 0]


def test_text_that_spells_a_special_token_is_text(tmp_path):
    letters = {letter: number for number, letter in enumerate("<>us")}
    ours = listed(tmp_path / "ours", letters, special=["<us>"])
    assert ours.tokens("<us>") == [0, 2, 3, 1]
    assert fresh(ours, ours, [0, 2, 3, 1, 4]).tokens == [0, 2, 3, 1, 4]


@pytest.mark.parametrize("prefix", ["always", "first", "never"])
def test_no_space_is_put_before_a_part_of_a_text(tmp_path, prefix):
    theirs = unigram(tmp_path / "theirs", prefix=prefix)
    for text in ("the a", " the a", "ü the"):
        assert spelled(theirs, theirs.tokens(text)) == text.encode()
    for text in ("the", " the"):
        assert spelled(stories(), stories().tokens(text)) == text.encode()


def test_a_text_begins_once():
    theirs = stories()
    begin = list(theirs.begin)
    name = next(name for name, index in theirs.special.items() if [index] == begin)
    ours = stories()
    hello = ours.tokens(" hello")
    assert fresh(ours, theirs, hello).tokens == [*begin, *hello]
    assert fresh(ours, theirs, [ours.special[name], *hello]).tokens == [*begin, *hello]
