"""Several drafters in turn: which of them is asked, and what each is told."""

import mlx.core as mx

from engine.draft_length import DraftCandidate
from engine.drafters import DraftArrays, Drafter
from engine.drafters.cascade import Cascade
from tests.support.engine.helpers import GREEDY, up_to

KEY = mx.random.key(0)


class Fixture(Drafter):
    """Proposes always the same, and notes what it is asked and told."""

    def __init__(self, name, draft, *, learns, match=0):
        self.name, self.learns = name, learns
        self.draft, self._match = draft, match
        self.asked = []
        self.paths = []
        self.lessons = []
        self.read, self.length = list[int](), 0

    def prepare(self, tokens):
        self.read = list(tokens)
        yield len(tokens)

    def candidates(self, tokens):
        return (DraftCandidate(self.name, 8, self._match, behind=2, alternatives=3),)

    def propose(self, tokens, choice, sampling, key):
        self.asked.append(choice)
        return self.draft

    def learn(self, tokens, likeliest):
        self.lessons.append((tokens, likeliest))

    def accept(self, path):
        self.paths.append(tuple(path))

    def rewind(self, length):
        self.length = length


def drafted(name, ids):
    """A chain of which the drafter is certain."""
    tokens = mx.array(list(ids), dtype=mx.int32)
    return DraftArrays(tokens, mx.ones(tokens.shape), None, name)


def cascade(copy, head):
    drafters = [Fixture("copy", copy, match=5, learns=1), Fixture("head", head, learns=2)]
    return Cascade(*drafters), drafters


def test_all_name_their_candidates_read_the_prompt_and_are_taken_back():
    both, (copy, head) = cascade(None, None)
    assert both.name == "copy+head"
    assert [each.drafter for each in both.candidates([1, 2])] == ["copy", "head"]
    assert list(both.prepare([1, 2])) == [2, 2]
    both.rewind(1)
    assert (copy.read, head.read) == ([1, 2], [1, 2])
    assert (copy.length, head.length) == (1, 1)


def test_who_is_named_drafts_and_else_the_first_that_has_something():
    both, (copy, head) = cascade(drafted("copy", [7]), drafted("head", [5]))
    for named, drafter in (("head", head), ("copy", copy), ("", copy)):
        draft = both.propose([1, 2], up_to(1, drafter=named), GREEDY, KEY)
        assert draft.drafter == drafter.name
        both.accept((0,))
        assert drafter.paths.pop() == (0,)
        assert copy.paths == head.paths == []

    silent, (_, head) = cascade(None, drafted("head", [5]))
    draft = silent.propose([1, 2], up_to(1), GREEDY, KEY)
    assert draft.drafter == "head"
    assert silent.propose([1, 2], up_to(1, drafter="copy"), GREEDY, KEY) is None
    nobody, _ = cascade(None, None)
    assert nobody.propose([1, 2], up_to(1), GREEDY, KEY) is None


def test_each_learns_as_many_of_the_likeliest_as_it_wants():
    both, (copy, head) = cascade(drafted("copy", [7]), None)
    assert both.learns == 2
    both.learn([1, 7], [[3, 4], [5, 6]])
    assert copy.lessons == [([1, 7], [[3], [5]])]
    assert head.lessons == [([1, 7], [[3, 4], [5, 6]])]


def test_a_cascade_in_a_cascade_stands_for_its_drafters():
    """A prediction in front of several drafters is not asked for what one of them was chosen."""
    inner, (_, head) = cascade(None, drafted("head", [5]))
    front = Fixture("front", drafted("front", [9]), match=32, learns=0)
    outer = Cascade(front, inner)
    assert outer.name == "front+copy+head"
    draft = outer.propose([1, 2], up_to(1, drafter="head"), GREEDY, KEY)
    assert (draft.drafter, len(head.asked), front.asked) == ("head", 1, [])
    outer.learn([1], [[3, 4]])
    assert front.lessons == []
