"""The laboratory's command: other kinds are distilled from the same answers, and drafted with."""

from pathlib import Path

import pytest

from engine.conversation.loading import LoadedModel
from engine.conversation.session import Session
from engine.drafters.medusa import MEDUSA_WEIGHTS_NAME
from engine.events import Done
from engine.request import Request
from models.drafters.folders import describe_drafter
from models.drafters.kinds import Demands
from models.model_folder import ModelFolder
from tests.lab.distil.__main__ import main
from tests.lab.distil.block_learner import WEIGHTS_NAME
from tests.support.engine.story_samples import STORIES, asked_of, openings


def learn(kind: str, folder: Path, *words: str) -> Path:
    """Run the command for the tiny target, with answers that are kept beside the drafters."""
    prompts = folder / "openings.txt"
    prompts.write_text("\n".join(openings(100)))
    out = folder / f"a {kind}"
    options = {
        "--kind": kind,
        "--target": STORIES,
        "--prompts": prompts,
        "--out": out,
        "--answers": folder / "answers",
        "--tokens": 300,
        "--vocabulary": 300,
        "--longest-answer": 12,
    }
    with pytest.raises(SystemExit) as ended:
        main([*(str(word) for option in options.items() for word in option), *words])
    assert not ended.value.code
    return out


@pytest.mark.slow
def test_other_kinds_are_distilled_and_drafted_with(tmp_path: Path, stories: LoadedModel) -> None:
    for kind, written, name, layers in (
        ("medusa", MEDUSA_WEIGHTS_NAME, "medusa", None),
        ("block", WEIGHTS_NAME, "dflash", 5),
    ):
        out = learn(kind, tmp_path)
        assert {path.name for path in out.iterdir()} == {"config.json", written}
        described = describe_drafter(out)
        assert described.kind == name
        assert described.description.predictions == 4
        assert described.description.verifier == "stories260K"
        assert described.description.demands == Demands(
            width=64, layers=layers, vocabulary=512, fingerprint=ModelFolder(STORIES).fingerprint
        )
        session = Session(stories, drafter=str(out))
        (one,) = asked_of(stories, openings(1))
        *_, done = session.complete(one.tokens, Request(max_tokens=40))
        assert isinstance(done, Done)
        assert done.stats.proposed > 0


def test_a_refusal_is_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    strange = ["--kind", "block", "--target", str(STORIES), "--out", str(tmp_path), "--tokens"]
    with pytest.raises(SystemExit) as ended:
        main([*strange, "300", "--prompts", str(tmp_path / "none.txt")])
    assert ended.value.code == 2
    assert capfd.readouterr().err.splitlines()[-1].startswith("distil: ")
