"""The loss of all places at once is that of one guess after another, as the head will draft; and a
measurement from stored answers is what the engine does, to the token."""

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from mlx.utils import tree_map
from mlx_lm.models.cache import KVCache

from engine.conversation.session import Session
from engine.distil.answering import Answerer
from engine.distil.head_learner import ChainAcceptance, HeadLearner, embed, loss, measure
from engine.distil.loss import make_batch, soft_cross_entropy
from engine.distil.store import RecordedAnswer
from engine.draft_length.policy import Fixed
from engine.drafters.head_network import BoundHead, Head, HeadShape, head_drafter
from engine.request import Request
from tests.support.engine.sessions import done_of, tokens_of
from tests.support.engine.story_samples import asked_of, new_story_learner

VOCABULARY, WIDTH, LAYERS = 40, 16, (2, 3)
KEPT = [1, 2, 3, 5, 8, 13, 21, 34, 39]  # the tokens that have a row
SHAPE = HeadShape(WIDTH, LAYERS, len(KEPT), 4, 2, 4, 24, 1e-5, 1e4)


@pytest.fixture(scope="module")
def table():
    """Made-up embeddings of a target."""
    mx.random.seed(4)
    return nn.Embedding(VOCABULARY, WIDTH)


@pytest.fixture(scope="module")
def head():
    """One in which places, steps and contexts make a difference, unlike a new one."""
    mx.random.seed(3)
    head = Head(SHAPE)
    head.update(
        tree_map(lambda weight: 2 * weight if weight.ndim == 2 else weight, head.parameters())
    )
    head.moved = mx.random.normal((WIDTH,))
    return head


def answer(prompt, answered, *, likeliest=6):
    """A made-up one. Its chances are about half of the mass, some of it of tokens without a row."""
    random = np.random.default_rng(1000 * prompt + answered)
    top = [random.choice(VOCABULARY, likeliest, replace=False) for _ in range(answered)]
    length = prompt + answered
    return RecordedAnswer(
        random.integers(0, VOCABULARY, length).tolist(),
        prompt,
        True,
        mx.array(random.standard_normal((length - 1, len(LAYERS), WIDTH))).astype(mx.bfloat16),
        mx.array(np.array(top)),
        mx.array(np.log(random.dirichlet([1.0] * likeliest, answered) / 2)).astype(mx.float16),
    )


def guess(head, table, state, text):
    """What can be said after a text, a token with a row of its own or of the text, and the logits
    of each."""
    said = [*KEPT, *sorted({*text} - {*KEPT})]
    more = mx.array(said[len(KEPT) :], dtype=mx.int32)
    return said, np.array(head.logits(state, table(more) + head.moved)[0, -1], dtype=np.float64)


def cross_entropy(head, table, state, one, predicted):
    """Of what can be said at `predicted`, and the target's chances there."""
    said, logits = guess(head, table, state, one.tokens[:predicted])
    log_probs = logits - np.logaddexp.reduce(logits)
    place = predicted - one.prompt
    chances = zip(one.top_tokens[place].tolist(), one.top_log_probs[place].tolist(), strict=True)
    return -sum(
        np.exp(log) * log_probs[said.index(token)] for token, log in chances if token in said
    )


def entropies(head, table, one, *, start, steps):
    """Of `steps` guesses: the first with the target's states up to `start`, the others with the
    head's own, while the tokens are the answer's."""
    cache = KVCache()
    begun = head.begin(one.states[None, : start + 1].astype(mx.float32))
    state = head(begun, table(mx.array([one.tokens[1 : start + 2]])), "causal", cache)[:, -1:]
    for step in range(steps):
        yield cross_entropy(head, table, state, one, start + step + 2)
        after = mx.array([one.tokens[start + step + 2 : start + step + 3]])
        state = head(head.go_on(state), table(after), None, cache)


def slowly(head, table, answers, *, steps):
    """The definition: of each step the mean over all guesses so deep, a step weighing 0.8 of the
    one before. A chain may begin wherever it guesses a token of the answer."""
    found = [[] for _ in range(steps)]
    for one in answers:
        # What is read at `start` stands for x[start], and guesses x[start + 2].
        for start in range(max(one.prompt - 2, 0), len(one.tokens) - 2):
            room = min(steps, len(one.tokens) - 2 - start)
            for step, entropy in enumerate(entropies(head, table, one, start=start, steps=room)):
                found[step].append(entropy)
    return sum(0.8**step * float(np.mean(each)) for step, each in enumerate(found) if each)


MIXTURES = {
    "one": [(5, 6)],
    "many": [(3, 9), (7, 4), (2, 2), (5, 12)],
    "a prompt of a token": [(1, 5), (4, 5)],
    "short answers": [(6, 2), (3, 3)],
    "an answer of a token": [(4, 1)],
}


@pytest.mark.parametrize("steps", [1, 3])
def test_all_at_once_is_one_after_another(head, table, steps):
    rows = np.full(VOCABULARY, -1)
    rows[KEPT] = np.arange(len(KEPT))
    for mixture, lengths in MIXTURES.items():
        answers = [answer(*each) for each in lengths]
        batch = make_batch(answers, mx.array(rows), borrows=True)
        found = loss(head, batch, embed(table, batch), table(batch.borrowed), steps=steps).item()
        expected = slowly(head, table, answers, steps=steps)
        assert found == pytest.approx(expected, rel=1e-4), mixture


def test_its_gradients_are_those_of_its_definition():
    """They are computed together with the loss. One state leaves nothing to chance."""
    random = np.random.default_rng(0)
    rows = mx.array(np.stack([random.choice(50, 8, replace=False) for _ in range(7)]))
    shares = random.dirichlet([0.3] * 8, 7) * random.uniform(0, 1, (7, 1))
    shares[2] = 0
    made = (random.standard_normal((7, 12)), 2 * random.standard_normal((50, 12)), shares)
    states, weight, chances = (mx.array(array.astype(np.float32)) for array in made)

    def defined(states, weight):
        logits = states @ weight.T
        likeliest = mx.take_along_axis(logits, rows, axis=-1)
        entropies = chances.sum(axis=-1) * mx.logsumexp(logits, axis=-1)
        return 3 * mx.mean(entropies - (chances * likeliest).sum(axis=-1))

    def ours(states, weight):
        return 3 * soft_cross_entropy(states, weight, rows, chances)

    expected = mx.grad(defined, argnums=(0, 1))(states, weight)
    found = mx.grad(ours, argnums=(0, 1))(states, weight)
    for one, other in zip(found, expected, strict=True):
        assert float(mx.abs(other).max()) > 0.01
        assert mx.allclose(one, other, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("length", [1, 4])
def test_chains_from_all_places_are_chains_from_each(head, table, length):
    one = answer(4, 12)
    learner = HeadLearner(BoundHead(head, SHAPE, mx.array(KEPT)), table, table)
    found = np.stack(list(learner.chains(one, length)))
    for place in range(len(one.tokens) - 2):
        text, cache, drafted = one.tokens[: place + 2], KVCache(), []
        begun = head.begin(one.states[None, : place + 1].astype(mx.float32))
        state = head(begun, table(mx.array([text[1:]])), "causal", cache)[:, -1:]
        while len(drafted) < length:
            said, logits = guess(head, table, state, text)
            drafted.append(said[logits.argmax()])
            state = head(head.go_on(state), table(mx.array([drafted[-1:]])), None, cache)
        assert found[:, place].tolist() == drafted


def by_the_engine(stories, learner, answers, *, chain):
    """The same greedy answers in the engine, with `chain` drafted tokens."""
    session = Session(stories)
    session.drafter = head_drafter(session.decoder, bound=learner.bound)
    session.policy = Fixed(chain)
    committed = passes = 0
    for one in answers:
        prompt, written = one.tokens[: one.prompt], one.tokens[one.prompt :]
        events = list(session.complete(prompt, Request(max_tokens=len(written))))
        assert tokens_of(events) == written
        committed += done_of(events).stats.committed
        passes += done_of(events).stats.rounds
    return ChainAcceptance(committed, passes)


def test_the_engine_commits_as_much(stories, trained, story_answers):
    """Of all that has no row of its own a part is borrowed, and the rest is never accepted."""
    asked = asked_of(stories, ["A b", "The end.", "Then Tom"])
    short = Answerer(stories, trained.bound.shape.layers).answer(asked, longest=7, seed=0)
    assert short
    for learner, answers, chain in [
        (new_story_learner(stories, rows=16), story_answers[:1], 5),
        (trained, story_answers[5:6], 3),
        (trained, short, 5),  # that end early, after short prompts
    ]:
        assert measure(learner, answers, chain=chain) == by_the_engine(
            stories, learner, answers, chain=chain
        )
