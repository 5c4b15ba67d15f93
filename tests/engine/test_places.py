"""Places: found exactly, longest first, and taken back as if nothing had been there."""

from hypothesis import given
from hypothesis import strategies as st

from engine.places import GAP, LONGEST_MATCH, Places

TEXT = st.lists(st.integers(0, 2), max_size=80)


def matching(text: list[int], tokens: list[int], place: int) -> int:
    most = min(place, len(tokens), LONGEST_MATCH)
    return next((i for i in range(most) if text[place - 1 - i] != tokens[-1 - i]), most)


def naive(text: list[int], tokens: list[int]) -> list[tuple[int, int]]:
    """The places of the longest of the matches that are asked for, the latest first."""
    every = [(place, matching(text, tokens, place)) for place in range(len(text) - 1, 0, -1)]
    for order in (8, 4, 2):
        found = [(place, matched) for place, matched in every if matched >= order]
        if found:
            return found[:64]
    return []


@given(text=TEXT, tokens=TEXT, slots=st.sampled_from([1, 4, 1 << 12]))
def test_all_places_are_found(text: list[int], tokens: list[int], slots: int) -> None:
    places = Places(slots=slots)
    places.extend(text)

    if slots > 1:  # else every other n-gram takes a turn among those that are looked at
        assert places.find(tokens) == naive(text, tokens)
    assert set(places.find(tokens)) <= set(naive(text, tokens))


@given(parts=st.lists(st.tuples(TEXT, st.integers(0, 100)), max_size=6))
def test_what_is_taken_back_was_never_there(parts: list[tuple[list[int], int]]) -> None:
    places, text = Places(slots=8), list[int]()
    for more, length in parts:
        places.extend(more)
        places.cut(length)
        text = [*text, *more][:length]
        fresh = Places(slots=8)
        fresh.extend(text)
        assert places.__dict__ == fresh.__dict__


@given(text=TEXT, tokens=TEXT, place=st.integers(-3, 90))
def test_a_match_at_one_place(text: list[int], tokens: list[int], place: int) -> None:
    places = Places(slots=8)
    places.extend(text)
    expected = matching(text, tokens, place) if 0 < place < len(text) else 0
    assert places.match(tokens, place) == expected


def test_nothing_matches_across_a_gap() -> None:
    places = Places(slots=8)
    places.extend([1, 2, 3, GAP, 4, 5, 1, 2])
    assert places.find([1, 2, 3, 4, 5]) == [(6, 2)]


def test_the_latest_64_places_are_looked_at() -> None:
    places = Places(slots=1 << 8)
    places.extend([1, 2, 3] * 100)
    assert [place for place, _ in places.find([0, 1, 2])] == [299 - 3 * i for i in range(64)]
