"""Log probabilities of answers and prompts: the target's own, whoever drafts."""

from itertools import product

import mlx.core as mx
import pytest

from engine.core.decoder import Decoder
from engine.events import Verdict
from engine.request import Grammar, Request, Sampling, chat
from tests.support.engine.sessions import (
    DRAFTERS,
    QUESTION,
    check_laws,
    collect,
    new_session,
    text_of,
    tokens_of,
)
from tests.support.mostly_slow import mostly_slow

SAMPLINGS = {
    "greedy": Sampling(),
    "sampled": Sampling(temperature=1.2, top_p=0.8, seed=3),
    "repeatable": Sampling(temperature=1.2, top_p=0.8, seed=3, repeatable=True),
    "biased": Sampling(logit_bias={40: 5.0}),
}


def told(events):
    return [each for event in events if isinstance(event, Verdict) for each in event.logprobs]


def afresh(session, prompt, tokens, bias):
    """What a model that reads prompt and answer at once gives for each place of the answer, after
    some tokens' `bias`."""
    logits = Decoder(session.target.model).read(mx.array([*prompt, *tokens]))
    for token, added in bias.items():
        logits[:, token] += added
    rows = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
    return list(rows[len(prompt) - 1 : -1])


@pytest.mark.parametrize(
    ("kind", "how"),
    mostly_slow(
        product(DRAFTERS, SAMPLINGS),
        quick=[("none", "biased"), ("model", "greedy"), ("trees", "sampled")],
    ),
)
def test_they_are_what_the_target_thought(kind, how, tokenizer):
    request = Request(sampling=SAMPLINGS[how], max_tokens=24, logprobs=3)
    session = new_session(tokenizer, "llama", kind)
    events = collect(session, session.answer(QUESTION, request))
    tokens, logprobs = tokens_of(events), told(events)
    assert [each.id for each in logprobs] == tokens
    prompt = session.encode(chat(QUESTION))
    rows = afresh(session, prompt, tokens, request.sampling.logit_bias)
    for row, token, each in zip(rows, tokens, logprobs, strict=True):
        assert each.logprob == pytest.approx(row[token].item(), abs=1e-3)
        best = sorted(row.tolist(), reverse=True)[:3]
        assert [top.logprob for top in each.top] == pytest.approx(best, abs=1e-3)


def test_their_bytes_are_the_text(tokenizer):
    """Half characters too, which as texts would be lost."""
    session = new_session(tokenizer)
    request = Request(sampling=Sampling(temperature=3.0), max_tokens=40, logprobs=0)
    events = collect(session, session.answer(QUESTION, request))
    assert all(each.top == () for each in told(events))
    joined = b"".join(bytes(each.bytes) for each in told(events) if each.id < 256)
    assert joined.decode(errors="replace") == text_of(events)
    assert "\N{REPLACEMENT CHARACTER}" in text_of(events)


def test_forced_tokens_are_certain(tokenizer):
    session = new_session(tokenizer)
    request = Request(max_tokens=20, logprobs=2, grammar=Grammar("regex", "ab[0-9]cd"))
    events = list(session.answer(QUESTION, request))
    check_laws(events, tokenizer)
    forced = [t.id for e in events if isinstance(e, Verdict) for t in e.forced]
    assert forced
    assert [each.logprob for each in told(events) if each.id in forced] == [0.0] * len(forced)
    assert [each.id for each in told(events)] == tokens_of(events)
