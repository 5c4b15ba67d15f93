"""Every event survives its JSON line, and no other line is taken for one."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.events import (
    Done,
    Draft,
    DraftedToken,
    Failed,
    Prefill,
    Source,
    Span,
    Stats,
    Text,
    TokenVerdict,
    Verdict,
    WrittenToken,
    from_json,
    to_json,
)

text = st.text() | st.just("\ud800 \u2028 \x1b[2J")
count = st.integers(0, 10**6)
figure = st.floats(allow_nan=False)
tokens = st.builds(DraftedToken, id=count, text=text, q=figure)
judgements = st.builds(TokenVerdict, p=figure, chance=figure)
own_tokens = st.builds(
    WrittenToken,
    id=count,
    text=text,
    p=figure,
    origin=st.sampled_from(["correction", "bonus", "plain"]),
)
stats = st.builds(
    Stats,
    prompt_tokens=count,
    accepted=count,
    decode_seconds=figure,
    proposed_by_position=st.lists(count).map(tuple),
    accepted_by_position=st.lists(count).map(tuple),
)
kinds = {
    "prefill": st.builds(
        Prefill,
        generation=text,
        processed=count,
        total=count,
        reused=count,
        seconds=figure,
        left_out_from=count,
        left_out=count,
        context=count,
    ),
    "draft": st.builds(
        Draft,
        generation=text,
        round=count,
        tokens=st.lists(tokens, max_size=4).map(tuple),
        drafter=text,
        source=st.none() | st.builds(Source, message=count, offset=count),
    ),
    "verdict": st.builds(
        Verdict,
        generation=text,
        round=count,
        accepted=count,
        judgements=st.lists(judgements, max_size=4).map(tuple),
        next=st.none() | own_tokens,
        draft_seconds=figure,
        verify_seconds=figure,
        seconds=figure,
        reason=text,
    ),
    "text": st.builds(
        Text,
        generation=text,
        delta=text,
        spans=st.lists(st.builds(Span, round=count, index=count, length=count)).map(tuple),
    ),
    "done": st.builds(
        Done,
        generation=text,
        reason=st.sampled_from(["stop", "length", "cancelled"]),
        stats=stats,
        cut=text,
    ),
    "failed": st.builds(Failed, generation=text, message=text, remedy=text),
}


@pytest.mark.parametrize("kind", kinds)
@given(data=st.data())
def test_an_event_survives_its_line(kind, data):
    event = data.draw(kinds[kind])
    line = to_json(event)
    assert "\n" not in line
    assert line.isascii()
    assert json.loads(line)["event"] == kind
    assert from_json(line) == event
    assert from_json(line + "\n") == event
    assert type(from_json(line)) is type(event)
    hash(from_json(line))  # tuples and frozen dataclasses all the way down


NEAR_MISSES = (
    "",
    "null",
    "[]",
    '"text"',
    "{}",
    '{"event": "text"}',
    '{"event": ["text"]}',
    '{"event": "Text", "generation": "g", "delta": "a"}',
    '{"event": "event", "generation": "g", "delta": "a"}',
    '{"event": "text", "generation": "g", "delta": "a", "more": 1}',
    '{"event": "text", "generation": "g", "delta": "a", "spans": [[1, 0, 1]]}',
    '{"event": "text", "generation": "g", "delta": "a", "spans": [{"round": 1}]}',
    '{"event": "draft", "generation": "g", "round": 0, "tokens": [7], "drafter": "d"}',
    '{"event": "draft", "generation": "g", "round": 0, "tokens": null, "drafter": "d"}',
    '{"event": "done", "generation": "g", "reason": "stop", "stats": []}',
    '{"event": "done", "generation": "g", "reason": "stop", "stats": {"rounds": "1"}}',
    '{"event": "done", "generation": "g", "reason": "over", "stats": {}}',
)


def test_near_misses_are_refused():
    for line in NEAR_MISSES:
        with pytest.raises(ValueError, match="not an event"):
            pytest.fail(f"{line} is {from_json(line)}")


@given(data=st.data(), event=st.one_of(*kinds.values()))
def test_a_line_that_breaks_off_or_is_changed_raises_a_value_error_at_most(data, event):
    line = to_json(event)
    place = data.draw(st.integers(0, len(line) - 1))
    with pytest.raises(ValueError, match=r"."):
        from_json(line[:place])
    changed = line[:place] + data.draw(st.text(max_size=2)) + line[place + 1 :]
    with contextlib.suppress(ValueError):
        from_json(changed)
