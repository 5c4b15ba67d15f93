"""Records survive JSON, and no other JSON is taken for one."""

import contextlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.errors import Problem
from models.json_lines import Language, named_by_class
from models.typed_json import WrongJson, decode


@dataclass(frozen=True)
class Leaf:
    name: str
    share: float = 0.5


@dataclass(frozen=True, kw_only=True)
class Tree:
    colour: Literal["red", "green"]
    count: int
    ripe: bool
    leaf: Leaf | None
    leaves: tuple[Leaf, ...]
    place: tuple[int, str]
    weights: Mapping[int, float] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self):
        if self.count < 0:
            raise ValueError("fewer than none")


leaves = st.builds(Leaf, st.text(), st.floats(allow_nan=False))
trees = st.builds(
    Tree,
    colour=st.sampled_from(["red", "green"]),
    count=st.integers(min_value=0),
    ripe=st.booleans(),
    leaf=st.none() | leaves,
    leaves=st.lists(leaves, max_size=3).map(tuple),
    place=st.tuples(st.integers(), st.text()),
    weights=st.dictionaries(st.integers(0, 10**9 - 1), st.floats(allow_nan=False)),
    notes=st.dictionaries(st.text(), st.none() | st.booleans()),
)
junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
LEAF = {"name": "a"}
PLAIN = {"colour": "red", "count": 1, "ripe": True, "leaf": LEAF, "leaves": [], "place": [1, "b"]}


def plain(tree):
    return json.loads(json.dumps(asdict(tree)))


@given(tree=trees)
def test_a_record_survives(tree):
    assert decode(Tree, plain(tree), place="tree") == tree
    assert decode(tuple[Tree, ...], [plain(tree)] * 2, place="trees") == (tree, tree)
    newer = plain(tree) | {"more": 1}  # as another version writes it
    newer["leaf"] = newer["leaf"] and newer["leaf"] | {"veins": []}
    assert decode(Tree, newer, place="tree", ignore_unknown=True) == tree


@given(tree=trees, data=st.data())
def test_a_spoilt_record_is_a_sound_one_or_refused(tree, data):
    value = plain(tree)
    key = data.draw(st.sampled_from(sorted(value)) | st.text(max_size=5))
    value[key] = data.draw(st.just(value.get(key)) | junk)
    with contextlib.suppress(ValueError):
        read = decode(Tree, value, place="tree")
        assert repr(decode(Tree, plain(read), place="tree")) == repr(read)  # NaN is not itself


def test_the_message_names_the_place(subtests):
    assert decode(Tree, PLAIN, place="tree").leaf == Leaf("a", 0.5)
    for change, message in [
        ({"colour": "blue"}, "tree.colour is 'blue'."),
        ({"count": 1.0}, "tree.count is a number."),
        ({"count": True}, "tree.count is a truth value."),
        ({"leaf": {}}, "tree.leaf lacks 'name'."),
        ({"leaf": LEAF | {"share": 10**400}}, "tree.leaf.share is out of range."),
        ({"leaves": LEAF}, "tree.leaves is an object."),
        ({"leaves": [LEAF, {"name": None}]}, "tree.leaves[1].name is null."),
        ({"weights": {"-1": 1.0}}, "tree.weights has the key '-1'."),
        ({"more": 1}, "tree has no field 'more'."),
    ]:
        with subtests.test(message=message):
            with pytest.raises(WrongJson) as refused:
                decode(Tree, PLAIN | change, place="tree")
            assert refused.value.message == message
            assert refused.value.remedy


# Messages survive their lines, and what is wrong with any other line is said.
@dataclass(frozen=True)
class Add:
    numbers: tuple[int, ...]

    def __post_init__(self):
        if not self.numbers:
            raise Problem("There is nothing to add.", "Give numbers.")


@dataclass(frozen=True)
class Quit:
    pass


SUMS = Language[Add | Quit]("order", named_by_class(Add, Quit))


def test_what_is_wrong_with_a_line_and_one_that_is_right(subtests):
    for line, mistake in {
        b" " * (SUMS.longest_bytes + 1): "too long",
        b" \n": "empty",
        b"\xff": "not utf 8",
        b"[" * 100_000: "nested too deeply",
        b"Welcome to mac2!": "not json",
        b"{}": "unknown name",
        b'{"order": "multiply"}': "unknown name",
        b'{"order": "quit", "now": true}': "unknown field",
        b'{"order": "add"}': "missing field",
        b'{"order": "add", "numbers": 1}': "wrong type",
        b'{"order": "add", "numbers": []}': "wrong value",
    }.items():
        with subtests.test(line=line[:40]):
            with pytest.raises(WrongJson) as refused:
                SUMS.read(line)
            assert refused.value.mistake == mistake
            assert refused.value.remedy
    line = SUMS.to_line(Add((1, -2)))
    assert line.count(b"\n") == line.endswith(b"\n") == 1
    assert SUMS.read(line) == Add((1, -2))
    assert SUMS.to_json(Quit()) == '{"order": "quit"}'
