"""What a grammar allows: against fresh matchers and against the texts themselves, one by one."""

import json
import re
from itertools import product
from unittest import mock

import mlx.core as mx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.grammar import Grammars
from engine.request import Grammar
from models.errors import Problem
from tests.support.engine.wordy import (
    ARGS,
    CALL,
    END,
    SIZE,
    STRUCK,
    TOOL,
    TURN_END,
    spelling,
    wordy_tokenizer,
)
from tests.support.loopback import serving_on_loopback

PADDED = SIZE + 9  # ids that no token has
AFTER = "</t>"

RECORD = json.dumps(
    {
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 6},
            "on": {"type": "boolean"},
            "list": {"type": "array", "items": {"type": "integer"}, "maxItems": 3},
        },
        "required": ["name", "list"],
        "additionalProperties": False,
    }
)
GRAMMARS = {
    "words": Grammar("regex", "(ab|abc|bc)*ca{2,4}"),
    "free at its end": Grammar("regex", r"ab(.|\n)*"),
    "record": Grammar("json schema", RECORD),
    "any": Grammar("json schema", "{}"),
    "number": Grammar("json schema", '{"type": "number", "minimum": -1, "maximum": 12.5}'),
    "calls": Grammar("lark", 'start: /[a-c]{1,5}/ <call> "(" /[12]+/ ")" | "null"'),
    "lazy": Grammar("lark", 'start: head "12" "ab"?\nhead[lazy]: /(.|\\n)*<\\/t>/'),
}


@pytest.fixture(scope="module")
def wordy(tmp_path_factory):
    return wordy_tokenizer(tmp_path_factory.mktemp("wordy"))


@pytest.fixture(scope="module")
def grammars(wordy):
    return Grammars(wordy, vocabulary=PADDED, ends=frozenset({END}))


def rows(constraint, drafted=()):
    masks = constraint.masks(list(drafted))
    assert masks.dtype == mx.bool_
    return masks.tolist()


def ids(row):
    return [token for token, allowed in enumerate(row) if allowed]


def some_text(constraint, picks, *, ends):
    """A text that the grammar allows, chosen by `picks`; it may stop anywhere."""
    text = []
    for pick in picks:
        (*_, row) = rows(constraint, text)
        choice = ids(row)
        text.append(choice[pick % len(choice)])
        if text[-1] in ends:
            break
    return text


# --- Rows


def fresh_rows(grammars, grammar, text):
    """Behind each prefix of `text`, each from the beginning; up to the first token that is not
    allowed or ends it, then all true."""
    found = []
    for size in range(len(text) + 1):
        constraint = grammars.constrain(grammar)
        if size and not found[-1][text[size - 1]]:
            break
        if text[size - 1 : size] == [END]:
            break
        constraint.commit(list(text[:size]))
        found += rows(constraint)
    return found + [[True] * grammars.vocabulary] * (len(text) + 1 - len(found))


picks = st.lists(st.integers(0, 10_000), max_size=9)


@given(
    name=st.sampled_from(list(GRAMMARS)),
    after=st.booleans(),
    committed=picks,
    drafted=picks,
    junk=st.none() | st.tuples(st.integers(0, 8), st.integers(0, PADDED - 1)),
    looks=st.lists(st.sampled_from(["masks", "allowed", "forced"]), max_size=3),
)
def test_rows_depend_on_the_prefix_alone(grammars, name, after, committed, drafted, junk, looks):
    grammar = GRAMMARS[name]
    if after:
        grammar = Grammar(grammar.kind, grammar.source, after=AFTER)
    constraint = grammars.constrain(grammar)
    behind = [*AFTER.encode()] if after and len(committed) % 2 else []
    constraint.commit(behind)
    text = some_text(constraint, committed, ends=frozenset({END}))
    if END in text:
        text.pop()
    constraint.commit(text)
    draft = some_text(constraint, drafted, ends=frozenset({END}))
    if junk:
        draft.insert(junk[0], junk[1])
    expected = fresh_rows(grammars, grammar, [*behind, *text, *draft])[len(behind + text) :]

    for look in looks:  # which leave no trace
        if look == "masks":
            rows(constraint, draft[1:])
        elif look == "allowed":
            constraint.allowed(draft)
        else:
            constraint.forced(5)
    assert rows(constraint, draft) == expected
    count = next((n for n, token in enumerate(draft) if not expected[n][token]), len(draft))
    count = min(count, draft.index(END) + 1) if END in draft else count
    assert constraint.allowed(draft) == count
    if END not in draft[:count]:
        constraint.commit(draft[:count])
        assert rows(constraint) == expected[count : count + 1]
        more = ids(expected[count])[:1]
        constraint.commit(more)
        whole = [*behind, *text, *draft[:count], *more]
        assert more == [END] or rows(constraint) == fresh_rows(grammars, grammar, whole)[-1:]


# --- Texts: a language with few words, so that all of it can be looked at

LANGUAGE = [
    b"".join(word) for word in product([b"ab", b"abc"], [b"", b"</t>a"], [b">", b"!", b">>"])
]
FEW = "(ab|abc)(</t>a)?(>|!|>>)"


def constrained(text, after):
    """What of the text is the grammar's; None while it is free."""
    return text[text.index(after) + len(after) :] if after in text else None


def allowed_after(text, after, grammars):
    """By the definition. Special tokens are names while the text is free, and nothing of the
    grammar's."""
    here, allowed = constrained(text, after), set()
    for token in {*range(grammars.vocabulary)} - grammars.ends:
        rest = constrained(text + spelling(token), after)
        possible = rest is None or any(word.startswith(rest) for word in LANGUAGE)
        if possible and (here is None or (token < END and spelling(token))):
            allowed.add(token)
    return allowed | grammars.ends if here in LANGUAGE else allowed


@given(
    choices=st.lists(st.integers(0, 10_000), max_size=8),
    lead=st.lists(
        st.sampled_from([b"<", b"</", b"</t", b"t>", b"x", "é".encode(), b"\xff"]), max_size=4
    ),
    after=st.sampled_from(["", AFTER, "<</t>", ">a>", "é", "aa", "abab"]),
)
def test_every_row_of_every_split(grammars, choices, lead, after):
    """The end of `after` in a draft, in front of one, and inside of a token."""
    text = [*b"".join(lead)] if after else []
    reach = [token for token in range(SIZE) if after.encode()[-1:] in spelling(token)]
    constraint = grammars.constrain(Grammar("regex", FEW, after=after))
    for number, choice in enumerate(choices):
        row = rows(constraint, text)[-1]
        allowed = [token for token in ids(row) if token != END]
        hinted = [token for token in allowed if after and token in reach] if number % 2 else []
        options = hinted or allowed
        if not options or sum(map(len, map(spelling, text))) > 40:
            break
        text.append(options[choice % len(options)])

    before = [b"".join(map(spelling, text[:size])) for size in range(len(text) + 1)]
    for cut in range(len(text) + 1):  # each row of the rest after each prefix
        constraint = grammars.constrain(Grammar("regex", FEW, after=after))
        if constraint.allowed(text[:cut]) < cut:
            break
        constraint.commit(text[:cut])
        reached = True
        for size, row in enumerate(rows(constraint, text[cut:]), cut):
            if not reached:
                assert all(row)
                continue
            found, expected = {*ids(row)}, allowed_after(before[size], after.encode(), grammars)
            free = constrained(before[size], after.encode()) is None
            only = len(found) == 1 and found < expected and not free
            assert found == expected or only, (before[size], found ^ expected)
            reached = {*text[size : size + 1]} <= found


TWELVE = next(token for token in range(SIZE) if spelling(token) == b"12")


@pytest.mark.parametrize(
    ("after", "committed"),
    [
        ("<call>", [*b"x", CALL]),
        ("[ARGS]<", [ARGS, *b"<"]),
        ("<tool>", [*b"a", TOOL]),  # which is not marked as special
        ("<tool>", [*b"a<tool>"]),
    ],
)
def test_tokens_with_names_count_by_them(grammars, after, committed):
    constraint = grammars.constrain(Grammar("regex", "12", after=after))
    constraint.commit(committed)
    assert constraint.forced(9) == [TWELVE, END]


@given(name=st.sampled_from(list(GRAMMARS)), choices=picks, most=st.integers(0, 6))
def test_forced_tokens_are_the_only_ones(grammars, name, choices, most):
    constraint = grammars.constrain(GRAMMARS[name])
    text = some_text(constraint, choices, ends=frozenset({END}))
    constraint.commit([token for token in text if token != END])

    forced = constraint.forced(most)

    found = rows(constraint, forced)
    assert len(forced) <= most
    for row, token in zip(found, forced, strict=False):
        assert ids(row) == [token]
    if len(forced) < most and forced[-1:] != [END]:
        assert len(ids(found[-1])) > 1


def test_the_end_is_allowed_where_the_grammar_is_complete(grammars):
    constraint = grammars.constrain(Grammar("regex", "a(12)?"))
    found = rows(constraint, [*b"a12", END, 4])
    assert [row[END] for row in found] == [False, True, False, True, True, True]
    assert ids(found[3]) == [END]
    assert all(found[4])  # after the end
    assert all(found[5])
    assert constraint.allowed([*b"a12", END, 4]) == 4
    assert constraint.allowed([*b"a1", END]) == 2
    constraint.commit([*b"a12", END])
    assert constraint.forced(3) == [END]  # it is never taken for a part of the text


def test_where_several_tokens_end_a_text_none_is_forced(wordy):
    both = Grammars(wordy, vocabulary=SIZE, ends=frozenset({END, TURN_END}))
    constraint = both.constrain(Grammar("regex", "12"))
    assert constraint.forced(9) == [TWELVE]
    constraint.commit([TWELVE])
    assert ids(rows(constraint)[0]) == [END, TURN_END]


def test_names_of_special_tokens_may_stand_in_a_text(grammars):
    """And are written as text, letter by letter: that of the end does not end it."""
    for name in ("<eos>", "<call>", "<s>", "a<eos>b"):
        quoted = json.dumps(name)
        for kind, source, text in [
            ("json schema", json.dumps({"const": name}), quoted),
            ("lark", f"start: {quoted}", name),
        ]:
            constraint, written = grammars.constrain(Grammar(kind, source)), []
            while written[-1:] != [END]:
                (*_, row) = rows(constraint, written)
                written.append(ids(row)[0])
            assert b"".join(map(spelling, written[:-1])) == text.encode()
            assert max(written[:-1]) < END


def test_tokens_that_the_model_cannot_write_are_not_there(wordy):
    few = Grammars(wordy, vocabulary=END + 1, ends=frozenset({END, STRUCK}))
    constraint = few.constrain(Grammar("regex", "a+"))
    assert constraint.masks([]).shape == (1, END + 1)
    assert ids(rows(constraint, [*b"a"])[1])[-1] == END
    with pytest.raises(Problem):
        few.constrain(Grammar("lark", "start: <call>"))
    for ends in (frozenset[int](), frozenset({SIZE + 70})):
        with pytest.raises(Problem):
            Grammars(wordy, vocabulary=SIZE, ends=ends).constrain(GRAMMARS["words"])
    fewer = Grammars(wordy, vocabulary=100, ends=frozenset({7}))  # of the letters none after b
    constraint = fewer.constrain(Grammar("regex", "[abz]y?z"))
    constraint.commit([*b"a"])
    with pytest.raises(Problem):
        constraint.masks([])


def written(constraint):
    """What is forced."""
    return b"".join(map(spelling, constraint.forced(99))).decode()


def test_special_tokens_are_named_in_a_lark_grammar(grammars):
    source = """
        start: <call> name <[ARGS]> "<call>[ARGS]" // <call>
        name: /<s>\\// # <[ARGS]>
    """
    constraint = grammars.constrain(Grammar("lark", source))
    assert written(constraint) == "<call><s>/[ARGS]<call>[ARGS]<eos>"
    forced = constraint.forced(99)
    assert (forced[0], forced.count(CALL), forced.count(ARGS)) == (CALL, 1, 1)
    assert STRUCK not in forced


def test_a_token_named_in_angle_brackets_is_no_text(grammars):
    """Even where it is not marked as special: a grammar has to name it."""
    for source, allowed in [
        ('start: head "12"\nhead[lazy]: /(.|\n)*/ "<tool>"', False),
        ('start: /(.|\n)*/ <tool> "12"', True),
    ]:
        (row,) = rows(grammars.constrain(Grammar("lark", source)))
        assert row[TOOL] == allowed


def test_json_is_written_alike_everywhere(grammars):
    record = {"name": [1, {"name": None}], "}": "<call>"}
    schema = json.dumps({"const": record, "x-guidance": {"whitespace_flexible": True}})
    alone = grammars.constrain(Grammar("json schema", schema))
    inside = grammars.constrain(Grammar("lark", f'start: "}}" %json {schema} /x/'))
    assert written(alone) == json.dumps(record) + "<eos>"
    assert written(inside) == "}" + json.dumps(record) + "x<eos>"


# --- What cannot be followed


TOO_MUCH = {
    "not": {"not": {"type": "string"}},
    "uniqueItems": {"type": "array", "uniqueItems": True},
    "contains": {"type": "array", "contains": {}},
    "propertyNames": {"type": "object", "propertyNames": {"pattern": "^a"}},
    "if": {"if": {}, "then": {}},
    "dependentRequired": {"dependentRequired": {"a": ["b"]}},
    "unevaluatedProperties": {"type": "object", "unevaluatedProperties": False},
    "$dynamicRef": {"$dynamicRef": "#a"},
    "oneOf": {"oneOf": [{"type": "integer"}, {"type": "number"}]},
    "strnig": {"type": "strnig"},
    "#/$defs/missing": {"$ref": "#/$defs/missing"},
}


def test_what_a_schema_asks_too_much_is_named(grammars):
    guidance = {"x-guidance": {"lenient": True, "coerce_one_of": True}}
    for (keyword, schema), more in product(TOO_MUCH.items(), [{}, guidance]):
        lenient = schema | more
        inner = {"type": "object", "properties": {"deep": lenient}, "required": ["deep"]}
        for source in (lenient, inner):
            with pytest.raises(Problem) as refused:
                grammars.constrain(Grammar("json schema", json.dumps(source)))
            message = str(refused.value)
            assert keyword.lstrip("#/") in message
            assert len(message.splitlines()) == 1
            with pytest.raises(Problem):
                grammars.constrain(Grammar("lark", f"start: %json {json.dumps(source)}"))


def test_a_format_that_nobody_knows_is_a_note(grammars):
    for noted in ({"format": "path", "maxLength": 3}, {"propertyNames": True, "maxLength": 3}):
        plain = {"type": "string", "maxLength": 3}
        for kind, form in (("json schema", "{}"), ("lark", "start: %json {}")):
            found, wanted = (
                grammars.constrain(Grammar(kind, form.replace("{}", json.dumps(schema))))
                for schema in (plain | noted, plain)
            )
            assert found.allowed([]) == wanted.allowed([])


def test_nothing_is_fetched(grammars):
    asked = mock.Mock()
    with serving_on_loopback(asked) as address:
        for place in (f"{address}/schema.json", "file:///etc/hostname"):
            with pytest.raises(Problem, match=re.escape(place)):
                grammars.constrain(Grammar("json schema", json.dumps({"$ref": place})))
    assert not asked.called


UNREADABLE = [
    ("json schema", "nope"),
    ("json schema", '{"type": NaN}'),
    ("json schema", "[]"),
    ("json schema", '"\ud800"'),
    ("json schema", '{"items": ' * 5_000 + "{}" + "}" * 5_000),
    ("json schema", '{"type": "string", "pattern": "a(?=b)"}'),
    ("json schema", '{"type": "integer", "minimum": 3, "maximum": 2}'),
    ("regex", "("),
    ("regex", "(" * 5_000 + ")" * 5_000),
    ("regex", "a(?=b)"),
    ("regex", "a" * (1 << 20) + "a"),
    ("regex", "\ud800"),
    ("lark", ""),
    ("lark", "start: <nobody>"),
    ("lark", "start: " + "(" * 5_000 + '"a"' + ")" * 5_000),
    ("lark", "start: %json " + '{"items": ' * 5_000),
    ("lark", "start: %json " + '{"items": ' * 5_000 + "{}" + "}" * 5_000),
    ("lark", '{"grammars": [{"lark_grammar": "start: /a/"}]}'),
]


def test_what_cannot_be_read_is_refused(grammars):
    def refusal(grammar):
        try:
            grammars.constrain(grammar)
        except Problem as problem:
            return str(problem).encode()
        return b""

    asked = [*(Grammar(*each) for each in UNREADABLE), Grammar("regex", "a", after="\ud800")]
    assert [str(each)[:80] for each in asked if not 0 < len(refusal(each)) < 400] == []


def test_what_becomes_too_complex_ends_the_answer(grammars):
    """llguidance itself would allow the end from there on."""
    names = [f"rule{number}" for number in range(600)]
    rules = "\n".join(f'{name}: "b" "a"* "c"' for name in names)
    source = f'start: "a"? any\nany: {" | ".join(names)}\n{rules}'
    constraint = grammars.constrain(Grammar("lark", source))

    def write():
        for _ in range(9):
            (row,) = rows(constraint)
            assert not row[END]
            constraint.commit(ids(row)[:1])

    with pytest.raises(Problem):
        write()
    for asked, argument in [
        (constraint.masks, []),
        (constraint.forced, 3),
        (constraint.allowed, [END]),
        (constraint.commit, [END]),
    ]:
        with pytest.raises(Problem):
            asked(argument)


def test_what_is_not_allowed_is_not_committed(grammars):
    constraint = grammars.constrain(Grammar("regex", "ab*"))
    for wrong in ([ord("b")], [*b"ax"], [END], [CALL], [PADDED - 1], [PADDED + 99]):
        with pytest.raises(ValueError, match=rf"\b{wrong[-1]}\b"):
            grammars.constrain(Grammar("regex", "ab*")).commit(wrong)
    constraint.commit([*b"ab", END])
