"""A round is what its draft and its verdict say, and each is heard as it comes."""

from dataclasses import replace

from hypothesis import given

from engine.conversation.rounds import Round, Rounds, Token, branches, committed, joined, judged
from engine.conversation.stats import tally
from engine.events import Draft, DraftedToken, Source, Text, TokenVerdict, Verdict, WrittenToken
from engine.tree import Tree
from tests.engine.conversation.test_stats import runs
from tests.support.app.traces import traces, tree_round
from tests.support.engine.sessions import tokens_of


@given(events=runs())
def test_rounds_agree_with_the_figures(events):
    stats, found = tally(events), judged(events)
    fates = [token.fate for one in found for token in one.tokens]
    assert fates.count("accepted") == stats.accepted
    assert fates.count("rejected") == fates.count("correction") == stats.rejected
    assert fates.count("discarded") == stats.discarded
    assert fates.count("bonus") == stats.bonuses
    assert fates.count("plain") == stats.plain
    assert "drafted" not in fates
    assert len(found) == stats.rounds
    assert [token.id for token in committed(events)] == tokens_of(events)


def draft(number, *texts):
    drafted = tuple(DraftedToken(7, text, 0.5, 0.25) for text in texts)
    return Draft("g", number, drafted, "model", source=Source(2, 40))


def verdict(number, proposed, accepted, own):
    judgements = tuple(TokenVerdict(n / 10, n / 5) for n in range(proposed))
    return Verdict("g", number, accepted, judgements, own, 0.01, 0.02, 0.04, "fixed at 3")


def test_a_round_by_hand():
    rounds = Rounds()
    drafted = [
        Token(7, text, "drafted", 0.5, confidence=0.25, parent=number - 1)
        for number, text in enumerate(("The", " cat", " sat"))
    ]
    source = Source(2, 40)
    whole = Round(3, "model", tuple(drafted), None, source)
    assert rounds.push(draft(3, "The", " cat", " sat")) == whole
    event = verdict(3, 3, 1, WrittenToken(9, " dog", 0.75, "correction"))
    ended = rounds.push(event)
    accepted, rejected, discarded = (
        replace(token, fate=fate, p=number / 10, chance=number / 5)
        for number, (token, fate) in enumerate(
            zip(drafted, ("accepted", "rejected", "discarded"), strict=True)
        )
    )
    own = Token(9, " dog", "correction", p=0.75)
    assert ended == Round(3, "model", (accepted, rejected, discarded, own), event, source)
    assert (ended.own, ended.committed) == (own, (accepted, own))


def test_drafts_behind_an_end_of_text_were_not_rejected():
    (one,) = judged([draft(1, "so", "<end>", "and"), verdict(1, 3, 2, None)])
    assert [token.fate for token in one.tokens] == ["accepted", "accepted", "discarded"]
    assert one.own is None


def test_a_round_of_a_tree_by_hand():
    tokens = ((" a", -1, 0.5), (" the", -1, 0.5), (" cat", 1, 0.5), (" dog", 1, 0.5))
    drafted, ended = tree_round(1, *tokens, path=(1, 3))
    assert drafted.tree == ended.tree == Tree((-1, -1, 1, 1))
    assert [token.fate for token in drafted.tokens] == ["drafted"] * 4
    fates = ["rejected", "accepted", "rejected", "accepted", "bonus"]
    assert [token.fate for token in ended.tokens] == fates
    assert [token.text for token in ended.committed] == [" the", " dog", " own"]
    assert [token.text for token in drafted.best_path] == [" a"]
    assert [token.text for token in ended.best_path] == [" the", " dog"]


@given(events=traces())
def test_branches_have_every_token_once_and_begin_at_earlier_ones(events):
    for one in joined(events):
        if not isinstance(one, Round) or not one.drafted:
            continue
        found, tree = branches(one.drafted), one.tree
        assert sorted(token for branch in found for token in branch) == list(range(len(tree)))
        assert len(found) == len(tree.paths)
        known = {-1}
        for branch in found:
            assert tree.parents[branch[0]] in known
            assert [tree.parents[token] for token in branch[1:]] == list(branch[:-1])
            known |= set(branch)
        accepted = tuple(n for n, token in enumerate(one.drafted) if token.fate == "accepted")
        assert found[0][: len(accepted)] == accepted


def test_the_most_promising_branch_has_the_most_tokens_to_expect():
    def first(*tokens):
        return [token.text for token in tree_round(1, *tokens)[0].best_path]

    assert first(("short", -1, 0.4), ("long", -1, 0.5), ("on", 1, 0.9)) == ["long", "on"]
    assert first(("likely", -1, 0.9), ("long", -1, 0.5), ("on", 1, 0.9)) == ["likely"]
    # Drawn without replacement, q is that of a token once those before it are not it.
    assert first(("first", -1, 0.6), ("second", -1, 0.75)) == ["first"]
    assert first(("copied", -1, 1.0), ("too", -1, 1.0), ("longer", 1, 1.0)) == ["copied"]


def test_a_draft_is_judged_once():
    own = WrittenToken(3, "x", 0.9, "plain")
    events = [draft(1, "a"), verdict(1, 1, 1, own), Text("g", "x"), verdict(1, 1, 1, own)]
    assert [len(one.drafted) for one in judged(events)] == [1, 0]
    (other,) = judged([draft(1, "lost"), verdict(2, 0, 0, own)])
    assert (other.drafted, other.drafter) == ((), "")
