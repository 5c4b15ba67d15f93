"""What a replay says of a record is what the engine does, with tiny models."""

from dataclasses import replace

import mlx.core as mx
import pytest
from mlx_lm.utils import save_model

from engine.conversation.loading import load
from engine.conversation.session import Session
from engine.device import BACKENDS, CPU
from engine.draft_length.policy import Fixed
from engine.events import Draft, Verdict
from engine.request import ChatMessage, Request
from models.model_folder import ModelFolder
from tests.lab.simulate.conditions import Conditions
from tests.lab.simulate.curves import PUBLISHED
from tests.lab.simulate.record import RecordOptions, record
from tests.lab.simulate.replay import replay, whole
from tests.lab.simulate.traces import load_trace
from tests.support.engine.tiny import noisy, write_folder

TOKENS = 40
TEXT = "abc abc abc abc ab"


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """A target that soon repeats itself, and a model that guesses its tokens now and then."""
    folder = tmp_path_factory.mktemp("pair")
    model = write_folder("llama", folder / "target", seed=3, layers=1)
    for layer in model.layers:  # it sees but the last token
        layer.self_attn.o_proj.weight = 0.0 * layer.self_attn.o_proj.weight
    save_model(folder / "target", model)
    write_folder("llama", folder / "model", layers=1)
    save_model(folder / "model", noisy(model))
    return folder / "target", folder / "model"


@pytest.fixture(scope="module")
def recorded(pair, tmp_path_factory):
    target, model = pair
    folder = tmp_path_factory.mktemp("recorded")
    (folder / "prompts.txt").write_text(TEXT + "\n")
    options = RecordOptions(
        target=ModelFolder(target),
        out=folder / "trace.jsonl.gz",
        drafters=("lookup", str(model)),
        prompts=folder / "prompts.txt",
        max_tokens=TOKENS,
        longest=6,
    )
    trace = record(options)
    assert load_trace(options.out).answers == trace.answers
    greedy, sampled = trace.answers
    for answer in (greedy, sampled):
        chains = [chain for chain in answer.drafts["model"] if chain]
        assert 0 < sum(chain.accepted for chain in chains) < 6 * answer.places
    return greedy


@pytest.mark.quick(3)
@pytest.mark.parametrize("drafters", [("lookup",), ("model",), ("lookup", "model")])
@pytest.mark.parametrize("length", [3, 1, 6])
def test_greedy_replay_is_what_the_engine_does(pair, recorded, drafters, length, monkeypatch):
    monkeypatch.setitem(BACKENDS, mx.cpu, replace(CPU, beside_host=True))
    target, model = pair
    names = [str(model) if name == "model" else name for name in drafters]
    session = Session(load(ModelFolder(target)), drafter="+".join(names), policy=Fixed(length))
    events = list(session.answer([ChatMessage("user", TEXT)], Request(max_tokens=TOKENS)))
    drafts = {event.round: event for event in events if isinstance(event, Draft)}
    engine = [
        (drafts[v.round].drafter, len(drafts[v.round].tokens), v.accepted)
        if v.round in drafts
        else ("", 0, 0)
        for v in events
        if isinstance(v, Verdict)
    ]
    machine = Conditions(curve=PUBLISHED[0])
    rounds = replay(whole([recorded]), Fixed(length), machine, drafters=drafters)
    assert [(round.drafter, round.proposed, round.accepted) for round in rounds] == engine
    assert any(proposed for _, proposed, _ in engine)
