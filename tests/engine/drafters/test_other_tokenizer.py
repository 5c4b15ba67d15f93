"""A drafter with other tokens: what it draws has the distribution that it says, no special token
crosses, and what it has read is the text, whatever the target commits, and however it comes."""

from codecs import getincrementaldecoder
from dataclasses import replace
from itertools import product

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.decoder import Decoder
from engine.drafters.other_tokenizer import OtherTokenizerDrafter, Translation
from engine.drafters.reencoding import Reencoding, Writing
from tests.support.engine.drawn_texts import VOCABULARY, WARM
from tests.support.engine.helpers import GREEDY, up_to
from tests.support.engine.markov import decoder as table_decoder
from tests.support.engine.markov import exact, random_table
from tests.support.engine.tiny import shallow
from tests.support.engine.writings import listed, stories, unigram
from tests.support.mostly_slow import mostly_slow

KEY = mx.random.key(0)
LETTERS = {"a": 0, "b": 1, "c": 2, "ab": 3}  # and <s>, 4
OTHER_LETTERS = {"c": 0, "a": 1, "bc": 2, "b": 3, "d": 4}  # and <s>, 5
SHARED = {0: 1, 1: 3, 2: 0}
"""The drafter's token for each of the target's that it has."""


@pytest.fixture(scope="module")
def letters(tmp_path_factory):
    root = tmp_path_factory.mktemp("letters")
    ours = listed(root / "ours", LETTERS, merges=[("a", "b")], special=["<s>"])
    return ours, listed(root / "theirs", OTHER_LETTERS, merges=[("b", "c")], special=["<s>"])


def translation(pair, *, vocabulary=VOCABULARY, rows=6):
    return Translation(*pair, vocabulary=vocabulary, rows=rows)


def test_the_tokens_that_both_have(letters):
    assert translation(letters).own == SHARED
    assert translation(letters, vocabulary=2).own == {0: 1, 1: 3}
    assert translation(letters, rows=3).own == {0: 1, 2: 0}


@pytest.mark.parametrize(
    "sampling", [WARM, replace(WARM, top_p=0.7), replace(WARM, top_k=2), replace(WARM, min_p=0.3)]
)
def test_q_is_the_drafters_among_what_both_have(letters, sampling):
    table = random_table(6, seed=7)
    for tokens in ([0, 2], [2, 1], [3, 0]):
        drafter = OtherTokenizerDrafter(table_decoder(table), translation(letters))
        draft = drafter.propose(tokens, up_to(1), sampling, KEY)
        own = letters[1].tokens("".join("abc"[t] if t < 3 else "ab" for t in tokens))
        row = table[own[-2], own[-1]]
        whole = mx.full((VOCABULARY, VOCABULARY, VOCABULARY), -mx.inf)
        whole[0, 0, :3] = row[mx.array([SHARED[n] for n in range(3)])]
        expected = exact(whole[:1, :1], sampling)[0, 0]
        assert np.allclose(np.array(draft.distributions)[0], expected, atol=1e-6)
        assert draft.q.item() == draft.distributions[0, draft.tokens.item()].item()


@pytest.mark.parametrize("sampling", [WARM, GREEDY], ids=["warm", "greedy"])
def test_no_special_token_crosses(letters, sampling):
    """Though it is likely."""
    table = random_table(6, seed=7)
    table[..., 5] += 1.5
    drafter, found = OtherTokenizerDrafter(table_decoder(table), translation(letters)), set()
    for seed in range(20):
        draft = drafter.propose([0, 1, 2], up_to(4), sampling, mx.random.key(seed))
        found |= set(draft.tokens.tolist() if draft else [])
    assert found <= {0, 1, 2}
    assert sampling.greedy or found == {0, 1, 2}


TEXT = "The drafter reads what the target has written: über 日本語. "


def by_bytes(writings):
    """Of a target whose tokens are bytes."""
    decoder = Decoder(shallow("llama", vocabulary=450))
    made = Translation(writings["bytes"], writings["trained"], vocabulary=260, rows=450)
    return OtherTokenizerDrafter(decoder, made)


def test_nothing_is_drafted_inside_a_character(writings):
    drafter = by_bytes(writings)
    tokens = list(TEXT.encode())
    inside = TEXT.encode().index("日".encode()) + 1
    for sampling in (GREEDY, WARM):
        for more in (0, 1):
            assert drafter.propose(tokens[: inside + more], up_to(4), sampling, KEY) is None
        drafter.rewind(0)
    for length in (inside - 1, inside + 2):
        assert drafter.propose(tokens[:length], up_to(4), WARM, KEY) is not None


def told(draft):
    if draft is None:
        return None
    whole = None if draft.distributions is None else draft.distributions.tolist()
    return draft.tokens.tolist(), draft.q.tolist(), whole


def test_a_copy_has_read_as_much_and_follows_another_text(writings):
    one = by_bytes(writings)
    target, text = Decoder(shallow("llama", vocabulary=260)), list((TEXT * 4).encode())
    list(target.prefill(text))
    list(one.prepare(text))
    one.propose(text, up_to(3), GREEDY, KEY)
    other = one.fork(target)
    (candidate,) = other.candidates(text)
    assert candidate.behind == 0
    turned = [*text[:-9], *b" So does the target, too"]
    other.rewind(len(text) - 9)
    for drafter, its in ((other, turned), (one, text + turned[-9:])):
        found = [each.propose(its, up_to(3), GREEDY, KEY) for each in (drafter, by_bytes(writings))]
        assert told(found[0]) == told(found[1])


# --- The text that both have

LONG = "The drafter reads 12345 words, über größere Flüsse.\n\nSo does the target 🌈 there. " * 5
UNSPACED = "日本語の文章も少しだけ" * 25
KINDS = ("bytes", "trained", "stories")
UTF_8 = getincrementaldecoder("utf-8")


def spelled(writing, tokens):
    return b"".join(writing.spelled.get(token, b"") for token in tokens)


def state(text):
    return list(text.tokens), text.settled, text.waiting


def followed(target, drafter, tokens):
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
    return "".join([*texts, UTF_8(errors="replace").decode(last)]).encode()


def unfinished(part):
    """Whether its end begins a character that is not complete."""
    decoder = UTF_8()
    decoder.decode(part)
    return decoder.getstate()[0] != b""


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
@pytest.mark.parametrize(("target", "drafter"), [*product(KINDS, KINDS)])
@given(data=st.data())
def test_it_says_what_was_committed_in_whatever_steps(writings, target, drafter, data):
    """What was taken back leaves no trace."""
    ours, theirs = writings[target], writings[drafter]
    text, tokens = Reencoding(ours, theirs), []
    for _ in range(data.draw(st.integers(1, 4))):
        tokens = tokens + tokens_of(ours, data.draw(commits))
        for step in sorted(data.draw(st.lists(st.integers(0, len(tokens)), max_size=8))):
            text.follow(tokens[:step])
        text.follow(tokens)
        whole = followed(ours, theirs, tokens)
        assert spelled(theirs, whole.tokens) == said(ours, tokens)
        assert state(text) == state(whole)
        tokens = tokens[: data.draw(st.integers(0, len(tokens)))]
        text.rewind(len(tokens))
        assert state(text) == state(followed(ours, theirs, tokens))


@pytest.mark.parametrize(
    ("written", "drafter"),
    mostly_slow(
        product([LONG, UNSPACED], KINDS),
        quick=[(LONG, "stories"), (UNSPACED, "stories"), (LONG, "trained")],
    ),
)
def test_a_long_text_token_by_token(writings, drafter, written):
    ours, theirs = writings["bytes"], writings[drafter]
    tokens, text = ours.tokens(written), Reencoding(ours, theirs)
    for count in range(len(tokens) + 1):
        text.follow(tokens[:count])
        assert text.waiting == unfinished(written.encode()[:count])
    assert state(text) == state(followed(ours, theirs, tokens))
    assert spelled(theirs, text.tokens) == written.encode()
    if (written, drafter) == (LONG, "trained"):  # where a text has words, no cut shows
        assert text.settled > 100
        assert text.tokens == theirs.tokens(LONG)
        assert len(text.tokens) < len(LONG) / 1.5
    for count in (*range(len(tokens), len(tokens) - 90, -1), *range(len(tokens) - 90, 0, -7)):
        text.rewind(count)  # each token of a stretch, then some
        assert state(text) == state(followed(ours, theirs, tokens[:count]))


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
    text = followed(ours, theirs, [2, 0, 1, 3, 0, 4, 1])
    assert text.tokens == [3, 1, 0, 1, 2, 0]
    letters = {letter: number for number, letter in enumerate("<>us")}
    ours = listed(tmp_path / "spelled", letters, special=["<us>"])
    assert ours.tokens("<us>") == [0, 2, 3, 1]  # what spells a special token is text
    assert followed(ours, ours, [0, 2, 3, 1, 4]).tokens == [0, 2, 3, 1, 4]


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
    assert followed(ours, theirs, hello).tokens == [*begin, *hello]
    assert followed(ours, theirs, [ours.special[name], *hello]).tokens == [*begin, *hello]
