"""Recording, with tiny models: what a replay says is what the engine does."""

from dataclasses import replace
from pathlib import Path

import mlx.core as mx
import pytest
from mlx_lm.utils import save_model

from engine.conversation.loading import load
from engine.conversation.session import Session
from engine.device import BACKENDS, CPU
from engine.draft_length.policy import Fixed
from engine.drafters.head_network import save_head
from engine.events import Draft, Verdict
from engine.request import ChatMessage, Request
from models.errors import Problem
from models.model_folder import ModelFolder
from tests.lab.simulate.__main__ import main
from tests.lab.simulate.record import RecordOptions, record
from tests.lab.simulate.replay import replay, whole
from tests.lab.simulate.tests.recorded import conditions
from tests.lab.simulate.traces import AnswerTrace, TraceFile, load_trace, save_trace
from tests.support.engine.heads import untrained
from tests.support.engine.tiny import noisy, write_folder

TOKENS = 40


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A target that soon repeats itself, and a model that guesses its tokens now and then."""
    folder = tmp_path_factory.mktemp("pair")
    model = write_folder("llama", folder / "target", seed=3)
    for layer in model.layers:  # it sees but the last token
        layer.self_attn.o_proj.weight = 0.0 * layer.self_attn.o_proj.weight
    save_model(folder / "target", model)
    write_folder("llama", folder / "model")
    save_model(folder / "model", noisy(model))
    return folder / "target", folder / "model"


@pytest.fixture(scope="module")
def options(pair: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> RecordOptions:
    target, model = pair
    folder = tmp_path_factory.mktemp("recorded")
    (folder / "prompts.txt").write_text("abc abc abc abc ab\nto be, or not to be, or\n")
    return RecordOptions(
        target=ModelFolder(target),
        out=folder / "trace.jsonl.gz",
        drafters=("lookup", str(model)),
        prompts=folder / "prompts.txt",
        temperatures=(0.0, 1.0),
        max_tokens=TOKENS,
        longest=6,
    )


@pytest.fixture(scope="module")
def recorded(options: RecordOptions) -> tuple[AnswerTrace, ...]:
    trace = record(options)
    assert load_trace(options.out).answers == trace.answers
    return trace.answers


def test_every_prompt_is_recorded_at_every_temperature(recorded: tuple[AnswerTrace, ...]) -> None:
    assert [(answer.id, answer.temperature) for answer in recorded] == [
        ("own/1", 0.0),
        ("own/1", 1.0),
        ("own/2", 0.0),
        ("own/2", 1.0),
    ]
    for answer in recorded:
        assert 1 <= answer.places <= TOKENS
        assert list(answer.drafts) == ["lookup", "model"]
        chains = [chain for chain in answer.drafts["model"] if chain]
        assert len(chains) == answer.places
        assert all(len(chain.q) == 6 and chain.match == 0 for chain in chains)
        assert all(set(chain.q) == {1.0} for chain in answer.drafts["lookup"] if chain)
        assert all(chain.match >= 2 for chain in answer.drafts["lookup"] if chain)
        assert 0 < sum(chain.accepted for chain in chains) < 6 * answer.places


def test_the_path_of_a_greedy_answer_through_a_head_s_trees_begins_as_its_chain(
    pair: tuple[Path, Path],
    options: RecordOptions,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loaded = load(ModelFolder(pair[0]))
    known = loaded.folder.fingerprint
    save_head(untrained(loaded.model), tmp_path / "head", target="it", fingerprint=known)
    monkeypatch.setattr("tests.lab.simulate.record._WIDEST", 10_000)  # any token that it can say
    answers = record(
        replace(options, drafters=("lookup", str(tmp_path / "head")), out=tmp_path / "trace.jsonl")
    ).answers
    drafts = {answer.temperature: answer.drafts["head"] for answer in answers}
    assert all(drafted is None or drafted.ranks is None for drafted in drafts[1.0])
    assert all(each is None for each in (d and d.ranks for d in answers[0].drafts["lookup"]))
    greedy = [(i, each) for i, each in enumerate(drafts[0.0]) if each is not None]
    assert len(greedy) > TOKENS // 2
    for place, drafted in greedy:
        ranks = drafted.ranks or ()
        begins = next((i for i, rank in enumerate(ranks) if rank), len(ranks))
        left = len(drafts[0.0]) - place
        assert min(begins, len(drafted.q)) == min(drafted.accepted, left)
    paths = [drafted.ranks or () for _, drafted in greedy]
    assert any(any(path) for path in paths)
    assert any(len(path) < 10 for path in paths[:-10])  # it cannot say all tokens


@pytest.mark.parametrize("length", [1, 3, 6])
@pytest.mark.parametrize("drafters", [("lookup",), ("model",), ("lookup", "model")])
def test_greedy_replay_is_what_the_engine_does(
    pair: tuple[Path, Path],
    options: RecordOptions,
    recorded: tuple[AnswerTrace, ...],
    drafters: tuple[str, ...],
    length: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(BACKENDS, mx.cpu, replace(CPU, beside_host=True))
    target, model = pair
    names = [str(model) if name == "model" else name for name in drafters]
    session = Session(load(ModelFolder(target)), drafter="+".join(names), policy=Fixed(length))
    assert options.prompts is not None
    text = options.prompts.read_text().splitlines()[0]
    events = list(session.answer([ChatMessage("user", text)], Request(max_tokens=TOKENS)))
    drafts = {event.round: event for event in events if isinstance(event, Draft)}
    engine = [
        (drafts[v.round].drafter, len(drafts[v.round].tokens), v.accepted)
        if v.round in drafts
        else ("", 0, 0)
        for v in events
        if isinstance(v, Verdict)
    ]
    rounds = replay(whole([recorded[0]]), Fixed(length), conditions(), drafters=drafters)
    replayed = [(round.drafter, round.proposed, round.accepted) for round in rounds]
    assert replayed == engine
    assert any(proposed for _, proposed, _ in engine)


def test_recording_goes_on_where_it_stopped(
    options: RecordOptions, recorded: tuple[AnswerTrace, ...], tmp_path: Path
) -> None:
    again = replace(options, out=tmp_path / "again.jsonl")
    save_trace(again.out, TraceFile("target", recorded[:1] + recorded[2:]))
    lines: list[str] = []
    trace = record(again, lines.append)
    assert lines == ["1 of 1: own/1, temperature 1"]
    assert trace.answers == (*recorded[:1], *recorded[2:], recorded[1])  # and the same luck


def test_a_prompt_that_is_too_long_is_refused(options: RecordOptions, tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text("word " * 2000)
    long = replace(options, prompts=tmp_path / "long.txt", out=tmp_path / "a.jsonl")
    with pytest.raises(Problem, match=r"own/1 has .* tokens"):
        record(long)
    assert not long.out.exists()


def test_two_drafters_of_a_name_are_refused(options: RecordOptions, tmp_path: Path) -> None:
    twice = replace(options, drafters=("lookup", "lookup"), out=tmp_path / "a.jsonl")
    with pytest.raises(Problem, match="lookup"):
        record(twice)


def test_the_commands_record_and_simulate(
    pair: tuple[Path, Path],
    options: RecordOptions,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "recorded.jsonl.gz"
    drafters = [word for name in options.drafters for word in ("--drafter", name)]
    limits = ["--per-category", 1, "--max-tokens", 9, "--temperature", 0, "--longest", 2]
    words = ["record", "--target", pair[0], "--out", out, "--prompts", options.prompts]
    for command in ([*words, *drafters, *limits], ["play", "--traces", out, "--policy", 2]):
        with pytest.raises(SystemExit) as ended:
            main(list(map(str, command)))
        assert not ended.value.code, capfd.readouterr()
    text = capfd.readouterr().out
    assert text.splitlines()[0] == str(out)
    assert text.count("Simulated: ") == 6
    (answer,) = load_trace(out).answers
    assert (answer.id, answer.places) == ("own/1", 9)
    assert {len(chain.q) for chain in answer.drafts["model"] if chain} == {2}
