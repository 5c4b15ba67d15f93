"""Places: found exactly, longest first, and taken back as if nothing had been there."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.places import GAP, LONGEST_MATCH, LastCopy, Places

TEXT = st.lists(st.integers(0, 2), max_size=80)


def matching(text, tokens, place):
    most = min(place, len(tokens), LONGEST_MATCH)
    return next((i for i in range(most) if text[place - 1 - i] != tokens[-1 - i]), most)


def naive(text, tokens):
    """The places of the longest of the matches that are asked for, the latest first."""
    every = [(place, matching(text, tokens, place)) for place in range(len(text) - 1, 0, -1)]
    for order in (8, 4, 2):
        found = [(place, matched) for place, matched in every if matched >= order]
        if found:
            return found[:64]
    return []


@given(text=TEXT, tokens=TEXT, slots=st.sampled_from([1, 4, 1 << 12]))
def test_all_places_are_found(text, tokens, slots):
    places = Places(slots=slots)
    places.extend(text)

    if slots > 1:  # else every other n-gram takes a turn among those that are looked at
        assert places.find(tokens) == naive(text, tokens)
    assert set(places.find(tokens)) <= set(naive(text, tokens))


@given(parts=st.lists(st.tuples(TEXT, st.integers(0, 100)), max_size=6))
def test_what_is_taken_back_was_never_there(parts):
    places, text = Places(slots=8), list[int]()
    for more, length in parts:
        places.extend(more)
        places.cut(length)
        text = [*text, *more][:length]
        fresh = Places(slots=8)
        fresh.extend(text)
        assert places.__dict__ == fresh.__dict__


@given(text=TEXT, tokens=TEXT, place=st.integers(-3, 90))
def test_a_match_at_one_place(text, tokens, place):
    places = Places(slots=8)
    places.extend(text)
    expected = matching(text, tokens, place) if 0 < place < len(text) else 0
    assert places.match(tokens, [place]) == ([(place, expected)] if expected else [])


def test_the_latest_64_places_are_looked_at_and_nothing_matches_across_a_gap():
    places = Places(slots=1 << 8)
    places.extend([1, 2, 3] * 100)
    assert [place for place, _ in places.find([0, 1, 2])] == [299 - 3 * i for i in range(64)]
    places = Places(slots=8)
    places.extend([1, 2, 3, GAP, 4, 5, 1, 2])
    assert places.find([1, 2, 3, 4, 5]) == [(6, 2)]


RUN = list(range(10, 60))


def resumed(written, *, of=RUN):
    """The matches after a copy of the first 20 tokens, and what was `written` since."""
    places, copy = Places(slots=1 << 8), LastCopy()
    text = [*of, 1, 2, *of[:20]]
    places.extend(text)
    copy.keep(places, 20, length=len(text), copied=20)
    places.extend(written)
    return copy.matches(places, [*text, *written])


@given(
    put=st.lists(st.integers(100, 200), max_size=4),
    left_out=st.integers(0, 4),
    again=st.integers(2, 4),
)
def test_a_copy_goes_on_after_an_edit(put, left_out, again):
    """Of whichever kind: tokens in place of others, put in, left out."""
    place = 20 + left_out + again
    found = resumed([*put, *RUN[20 + left_out : place]])
    assert found[0][0] == place
    assert found[0][1] > max((matched for _, matched in found[1:]), default=0)


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ([100, RUN[21]], [(22, 5)]),  # one in place of one
        ([100, RUN[20]], [(21, 5)]),
        ([RUN[21]], [(22, 5)]),
        ([100, 101, RUN[23]], [(24, 5)]),
        ([*range(100, 107), RUN[27]], [(28, 5)]),
        ([*range(100, 108), RUN[28]], []),  # forgotten in time
        ([100, 101, 102, RUN[26]], []),  # not near
        ([100, RUN[40]], []),
    ],
    ids=str,
)
def test_one_token_resumes_a_copy_where_it_is_near(written, found):
    assert resumed(written) == found


def test_a_copy_goes_straight_on_where_others_match_as_well_and_a_short_one_is_not_resumed():
    again = [*RUN, 3, *RUN, 4, *RUN]
    assert [place for place, _ in resumed(RUN[20:22], of=again)[:2]] == [22, 124]
    places, copy = Places(slots=8), LastCopy()
    places.extend([*RUN, 1, *RUN[:6], 2])
    copy.keep(places, 6, length=57, copied=4)
    assert copy.matches(places, [*RUN, 1, *RUN[:6], 2, RUN[7]]) == []
