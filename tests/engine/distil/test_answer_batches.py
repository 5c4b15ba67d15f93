"""What many answers at once show is what one answer alone would have shown."""

from dataclasses import replace

import mlx.core as mx
import numpy as np

from engine.conversation.session import Session
from engine.distil import answering as module
from engine.distil.answering import LIKELIEST, Answerer, TokenizedPrompt
from engine.request import Request
from tests.support.engine.chi_square import excess
from tests.support.engine.sessions import loaded, tokens_of
from tests.support.engine.story_samples import asked_of, openings
from tests.support.engine.tiny import build

LAYERS = (1, 2)


def greedy(target):
    """Prompts of many lengths, in no order."""
    texts = ["On", *openings(4), " ".join(openings(3)), "The cat sat on the mat."]
    return asked_of(target, texts)


def alone(target, prompt, *, longest):
    """What a session without a drafter writes after `prompt`."""
    return tokens_of(list(Session(target).complete(prompt, Request(max_tokens=longest))))


def endless(target):
    return replace(target, ends=frozenset())


def by_prompt(answers):
    return {tuple(one.tokens[: one.prompt]): one.tokens[one.prompt :] for one in answers}


def test_answers_at_once_are_answers_alone(target, monkeypatch):
    monkeypatch.setattr(module, "_PREFILL_POSITIONS", 70)
    asked = greedy(target)
    answers = Answerer(target, LAYERS).answer(asked, longest=12, seed=0)
    assert all(one.greedy for one in answers)
    expected = {tuple(one.tokens): alone(target, one.tokens, longest=12) for one in asked}
    assert by_prompt(answers) == expected
    assert len({len(one.tokens) for one in asked}) > 4, "the lengths should differ"


def test_some_end_and_the_others_go_on(target):
    # As ends, tokens that a few of the answers come to, at different places.
    asked = greedy(target)
    plain = [alone(endless(target), one.tokens, longest=15) for one in asked]
    ends = frozenset({plain[0][0], plain[1][5], plain[2][13]})
    ending = replace(target, ends=ends)
    expected = {
        tuple(one.tokens): tokens
        for one in asked
        if len(tokens := alone(ending, one.tokens, longest=15)) > 1
    }
    answers = by_prompt(Answerer(ending, LAYERS).answer(asked, longest=15, seed=0))
    assert answers == expected
    assert 1 < len(answers) < len(asked), "some should have ended at once, and not all"
    assert len({len(tokens) for tokens in answers.values()}) > 2
    for tokens in answers.values():
        assert not ends & set(tokens[:-1]), "after the end"


def plain_pass(target, tokens):
    """The state after every layer of a Llama, and the logits, by hand and without caches."""
    inner = target.model.model
    state = inner.embed_tokens(mx.array([tokens]))
    states = []
    for layer in inner.layers:
        state = layer(state, "causal", None)
        states.append(state[0])
    return states, target.model(mx.array([tokens]))[0]


def test_states_and_chances_are_a_plain_pass(target):
    answers = Answerer(target, LAYERS).answer(
        asked_of(target, openings(4), temperatures=(0.0, 0.9)), longest=12, seed=3
    )
    assert [one.greedy for one in answers] == [True, False] * 2
    for one in answers:
        read = one.tokens[:-1]
        if one.greedy:  # beside sampled ones
            prompt = read[: one.prompt]
            assert one.tokens == [*prompt, *alone(target, prompt, longest=12)]
        states, logits = plain_pass(target, read)
        assert one.states.dtype == mx.bfloat16
        expected = mx.stack([states[number - 1] for number in LAYERS], axis=1)
        assert one.states.shape == expected.shape
        assert mx.allclose(one.states.astype(mx.float32), expected, rtol=1e-2, atol=1e-2)

        thought = np.array(logits[one.prompt - 1 :])
        log_probs = thought - np.logaddexp.reduce(thought, axis=-1, keepdims=True)
        top = np.array(one.top_tokens)
        assert top.shape == one.top_log_probs.shape == (len(one.tokens) - one.prompt, LIKELIEST)
        kept = np.take_along_axis(log_probs, top, axis=-1)
        assert np.allclose(kept, np.array(one.top_log_probs), rtol=2e-3, atol=2e-3)
        for row, tokens in zip(log_probs, top, strict=True):
            assert len(set(tokens)) == LIKELIEST
            assert row[tokens].min() >= np.sort(row)[-LIKELIEST] - 1e-4, "not the likeliest"


def test_samples_follow_temperature_and_seed(target):
    temperature, count = 0.5, 600
    (one,) = asked_of(target, ["Then"], temperatures=(temperature,))
    answerer = Answerer(endless(target), LAYERS[:1])
    answers = answerer.answer([one] * count, longest=2, seed=11)
    assert len(answers) == count
    few = [answerer.answer([one] * 20, longest=2, seed=seed) for seed in (1, 2)]
    assert len({str([each.tokens for each in drawn]) for drawn in few}) == 2
    _, logits = plain_pass(target, one.tokens)
    counts = np.bincount([a.tokens[a.prompt] for a in answers], minlength=logits.shape[-1])

    def chances(temperature):
        scaled = np.array(logits[-1], dtype=np.float64) / temperature
        scaled[np.argsort(scaled)[:-LIKELIEST]] = -np.inf  # only the likeliest are drawn from
        return np.exp(scaled - np.logaddexp.reduce(scaled))

    assert excess(counts, chances(temperature)) < 1
    assert excess(counts, chances(1.5 * temperature)) > 1, "another would have been noticed"


def test_a_vocabulary_of_a_few_tokens():
    # Fewer than the likeliest that are kept: all but one are.
    model = build("llama", vocabulary=20)
    target = replace(loaded(model, None), ends=frozenset())
    (one,) = Answerer(target, (4,)).answer([TokenizedPrompt([3, 7, 11], 0.0)], longest=6, seed=0)
    assert one.top_tokens.shape == (6, 19)
