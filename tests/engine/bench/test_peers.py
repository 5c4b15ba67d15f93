"""Other engines as contestants: counted and timed like ours, and none of their faults is ours.

The engines here are fakes with the real ones' calls; llama.cpp's keeps the loop of
`Llama.generate` (0.3.36): a round's draft is asked for behind the last token of the one before.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from engine.bench import run as running
from engine.bench.contestants import Assignment
from engine.bench.figures import Step
from engine.bench.options import BenchOptions
from engine.bench.peers import Guarded, Peers, find_peers
from engine.bench.run import run_bench
from engine.loading import LoadedModel, load

END = 256
ANSWER = [10, 11, 12, 13, 14, 15, 16, 17, 18, 19]


@pytest.fixture(scope="module")
def target(options: BenchOptions) -> LoadedModel:
    return load(options.target)


def asked(limit: int, prompt: tuple[int, ...] = (1, 2, 3)) -> Assignment:
    return Assignment(prompt, limit, 0.0, seed=7)


class Answering:
    """What the fakes write: a given text, and then its end."""

    def __init__(self, answer: Sequence[int], drafts: dict[int, list[int]]) -> None:
        self.answer = [*answer, END, 5, 5, 5]  # no one reads on behind the end
        self.drafts = drafts  # by the number of answer tokens that are there


def dspark(text: Answering) -> Any:
    class StopStreaming(Exception):
        pass

    def lookup_generate(
        target: Any,
        tokenizer: Any,
        *,
        max_new_tokens: int,
        on_text: Callable[[str], None],
        on_round: Callable[..., None],
        **rest: Any,
    ) -> Any:
        assert set(rest) == {"prompt_ids", "temperature", "seed"}
        ids, stopped = text.answer[:1], False
        while len(ids) < max_new_tokens and ids[-1] != END and not stopped:
            draft = text.drafts.get(len(ids), [])
            true = text.answer[len(ids) :]
            accepted = next((i for i, t in enumerate(draft) if t != true[i]), len(draft))
            committed = true[: accepted + 1]
            on_round(
                drafted=len(draft), accepted=accepted, committed=accepted + 1, cap=6, source="x"
            )
            ids += committed
            ids = ids[: ids.index(END) + 1] if END in ids else ids
            try:
                on_text("x")
            except StopStreaming:
                stopped = True
        return SimpleNamespace(token_ids=ids)

    return SimpleNamespace(
        StopStreaming=StopStreaming,
        Target=lambda model, tokenizer: object(),
        lookup_generate=lookup_generate,
    )


@pytest.fixture
def llama(monkeypatch: pytest.MonkeyPatch) -> Callable[[Answering], ModuleType]:
    """Installs the fake as a package."""

    def install(text: Answering) -> ModuleType:
        class Lookup:
            def __init__(self, num_pred_tokens: int) -> None:
                self.most = num_pred_tokens

            def __call__(self, input_ids: Any, /, **options: Any) -> Any:
                return np.array(text.drafts.get(len(input_ids) - 3, []), dtype=np.intc)

        class Llama:
            made: ClassVar[list[dict[str, Any]]] = []

            def __init__(self, **options: Any) -> None:
                self.draft_model = options["draft_model"]
                self.made.append(options)

            def n_vocab(self) -> int:
                return 260

            def reset(self) -> None:
                pass

            def set_seed(self, seed: int) -> None:
                assert seed == 7

            def generate(self, tokens: list[int], **sampling: Any) -> Iterator[int]:
                assert sampling["temp"] == 0.0
                written: list[int] = []
                draft: list[int] = []
                while True:
                    for position in range(len(draft) + 1):
                        token = text.answer[len(written)]
                        written.append(token)
                        yield token
                        if position < len(draft) and token != draft[position]:
                            break
                    if self.draft_model is not None:
                        draft = list(self.draft_model(np.array([*tokens, *written])))

        package, speculative = ModuleType("llama_cpp"), ModuleType("llama_cpp.llama_speculative")
        package.Llama = Llama  # type: ignore[attr-defined]
        speculative.LlamaPromptLookupDecoding = Lookup  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "llama_cpp", package)
        monkeypatch.setitem(sys.modules, "llama_cpp.llama_speculative", speculative)
        return package

    return install


def finder(**modules: Any) -> Callable[[str], Any]:
    def find(name: str) -> Any:
        if name not in modules:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        if isinstance(modules[name], Exception):
            raise modules[name]
        return modules[name]

    return find


def test_what_is_not_installed_is_a_line(target: LoadedModel, tmp_path: Path) -> None:
    peers = find_peers(target, gguf=tmp_path / "x.gguf", context=64, find=finder())
    assert peers.contestants == ()
    assert [note.partition(" ")[0] for note in peers.notes] == ["mlx-dspark", "llama-cpp-python"]
    assert all("not installed" in note for note in peers.notes)


def test_what_is_broken_says_so(target: LoadedModel, tmp_path: Path) -> None:
    lacking = ModuleNotFoundError("No module named 'mlx_vlm'", name="mlx_vlm")
    failing = RuntimeError("libllama.so:\n  cannot open")
    find = finder(mlx_dspark=lacking, llama_cpp=failing)
    peers = find_peers(target, gguf=tmp_path / "x.gguf", context=64, find=find)
    assert peers.notes == (
        "mlx-dspark is left out: it needs mlx_vlm.",
        "llama-cpp-python is left out: libllama.so: cannot open.",
    )
    wants = SimpleNamespace(Target=lambda *_: 1 / 0)
    (note, needs) = find_peers(target, gguf=None, context=64, find=finder(mlx_dspark=wants)).notes
    assert note == "mlx-dspark is left out: division by zero."
    assert "--gguf" in needs


def test_mlx_dspark_is_counted_by_rounds(target: LoadedModel) -> None:
    # The first token is the prompt's; then a plain round, one draft of which 2 of 3 stand, ...
    text = Answering(ANSWER, {2: [12, 13, 99], 5: [15, 99]})
    (contestant,) = find_peers(
        target, gguf=None, context=64, find=finder(mlx_dspark=dspark(text))
    ).contestants
    assert contestant.name == "mlx-dspark lookup"

    measured = contestant.run(asked(limit=6))
    assert measured.ids == tuple(ANSWER[:7])
    assert measured.steps == (Step(3, 2), Step(2, 1)), "the first round starts the clock"
    assert measured.stats.committed == 5
    assert measured.stats.decode_seconds > 0
    assert measured.same_weights

    ended = contestant.run(asked(limit=60))
    assert ended.ids == (*ANSWER, END)
    assert ended.stats.plain == 4


def test_an_end_within_a_draft_commits_nothing_behind_it(target: LoadedModel) -> None:
    text = Answering([10, 11], {2: [END, 5, 5]})
    (contestant,) = find_peers(
        target, gguf=None, context=64, find=finder(mlx_dspark=dspark(text))
    ).contestants
    measured = contestant.run(asked(limit=60))
    assert measured.ids == (10, 11, END)
    assert measured.steps[-1] == Step(3, 1, own=False)


def test_llama_cpp_is_counted_by_rounds(
    target: LoadedModel, llama: Callable[[Answering], ModuleType], tmp_path: Path
) -> None:
    text = Answering(ANSWER, {1: [11, 12, 99], 4: [], 5: [15, 16], 8: [99]})
    package = llama(text)
    find = finder(llama_cpp=package)
    plain, lookup = find_peers(target, gguf=tmp_path / "x.gguf", context=64, find=find).contestants
    assert (plain.name, lookup.name) == ("llama.cpp plain", "llama.cpp lookup 2")

    measured = plain.run(asked(limit=60))
    assert measured.ids == (*ANSWER, END)
    assert measured.steps == (Step(0, 0),) * 10
    assert not measured.same_weights

    measured = lookup.run(asked(limit=60))
    assert measured.ids == (*ANSWER, END)
    assert measured.steps == (
        Step(3, 2),
        Step(0, 0),
        Step(2, 2),
        Step(1, 0),
        Step(0, 0),
        Step(0, 0),
    )
    again = lookup.run(asked(limit=3))
    assert (again.ids, again.steps) == (tuple(ANSWER[:4]), (Step(3, 2),))

    assert [made["draft_model"] is None for made in package.Llama.made] == [True, False]
    assert all(made["n_ctx"] > 64 + 16 for made in package.Llama.made)


def test_a_file_of_another_model_is_refused(
    target: LoadedModel, llama: Callable[[Answering], ModuleType], tmp_path: Path
) -> None:
    find = finder(llama_cpp=llama(Answering(ANSWER, {})))
    plain, _ = find_peers(target, gguf=tmp_path / "x.gguf", context=64, find=find).contestants
    with pytest.raises(ValueError, match=r"x\.gguf holds another model"):
        plain.run(asked(limit=6, prompt=(1, 259, 260)))


def test_whatever_a_peer_raises_is_its_own() -> None:
    def run(assignment: Assignment) -> Any:
        raise AttributeError("no such call\nin this version")

    guarded = Guarded(SimpleNamespace(name="theirs", run=run))
    with pytest.raises(ValueError, match="AttributeError: no such call in this version"):
        guarded.run(asked(limit=6))


def test_a_peer_that_fails_in_mid_run_is_out_and_the_rest_goes_on(
    options: BenchOptions, monkeypatch: pytest.MonkeyPatch
) -> None:

    class Failing:
        name = "theirs"
        runs = 0

        def run(self, assignment: Assignment) -> Any:
            self.runs += 1
            if self.runs > 1:
                raise ValueError("enough")
            return None

    failing = Failing()
    monkeypatch.setattr(running, "find_peers", lambda *_, **__: Peers((failing,), ("a peer.",)))
    short = replace(options, drafters=(), temperatures=(0.0,), out=None)
    report = run_bench(short, progress=lambda line: None)

    assert failing.runs == 2
    assert report.refused == (("theirs", "enough"),)
    assert len(report.runs) == 4, "two plain ones, two prompts"
    assert report.notes == ("a peer.",)
