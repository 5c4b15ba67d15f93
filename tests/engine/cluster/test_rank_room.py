"""What a plan says that each rank needs is what its process needs at most, by MLX's own count."""

import json
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import mlx.core as mx
import pytest

from engine.cluster.follower import Follower
from engine.cluster.group import Group
from engine.cluster.leader import Leader, LeadingDecoder
from engine.cluster.share import RankShare, load_part
from engine.conversation.session import Session
from engine.draft_length.policy import Fixed
from models.drafters.folders import describe_drafter
from models.files import models_folder
from models.limits import LONGEST_COPY
from models.memory.machine import Machine
from models.memory.model_size import weigh
from models.memory.shares import plan
from models.model_folder import ModelFolder
from models.sharing import Mode
from models.starter import STARTER
from tests.engine.conversation.test_pair_room import CLOSE, ROOT, random_model
from tests.support.engine.peak_memory import fill
from tests.support.engine.ranks import started

SECONDS = 300.0  # for hangs only
PLENTY = Machine("plenty", 1 << 40, 1 << 40, unified=False)
HEAD = ROOT / "resources" / "drafters" / "smollm2-135m"


@dataclass(frozen=True, slots=True)
class Held:
    """What a rank's weights took, and the most that it held at once."""

    weights_bytes: int
    peak_bytes: int


@dataclass(frozen=True, slots=True)
class Task:
    """What ranks are to load, and the conversation that fills it."""

    path: Path
    mode: Mode
    split: tuple[int, ...]
    expand: bool
    drafter: str
    context: int


def hold(group: Group, task: Task) -> Held:
    """Load a rank's share, and fill a conversation with all ranks."""
    share = RankShare(task.mode, group.rank(), group.size(), task.split)
    loaded, part = load_part(ModelFolder(task.path), share, group, expand=task.expand)
    if group.rank():
        Follower(part).run(lambda: True)
    else:
        leader = Leader(part)
        target = replace(loaded, decoder=partial(LeadingDecoder, leader=leader))
        session = Session(target, drafter=task.drafter, policy=Fixed(LONGEST_COPY))
        fill(session, task.context, answer_tokens=2 * LONGEST_COPY + 8)
        leader.quit()
    return Held(part.size_bytes, mx.get_peak_memory())


def assert_measured(
    path: Path,
    ranks: int,
    *,
    mode: Mode,
    context: int,
    drafter: str = "lookup",
    head: Path | None = None,
    machine: Machine = PLENTY,
) -> None:
    """Each rank's peak, and its weights alone, are as planned."""
    folder = ModelFolder(path)
    size = weigh(describe_drafter(head)) if head else None
    made = plan(folder, [machine] * ranks, drafter=size, context=context, mode=mode)
    task = Task(path, made.mode, made.split, made.expand, drafter, context)
    with started(ranks) as group:
        held = group.call(hold, task, seconds=SECONDS)
    ratios = [each.needed_bytes / own.peak_bytes for each, own in zip(made.fits, held, strict=True)]
    print(json.dumps([path.name, mode, made.split, context, ratios, list(map(str, held))]))
    for each, own in zip(made.fits, held, strict=True):
        assert abs(each.weights_bytes / own.weights_bytes - 1) < CLOSE
    assert all(abs(ratio - 1) < CLOSE for ratio in ratios)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["pipeline", "tensor"])
@pytest.mark.parametrize(("architecture", "bits"), [("llama", None), ("llama", 4), ("qwen3_5", 8)])
def test_ranks_of_a_random_model_need_what_is_said(
    architecture: str, bits: int | None, mode: Mode, tmp_path: Path
) -> None:
    target = random_model(tmp_path / "target", architecture, bits=bits)
    # Each turn's prompt ends with room for a whole copy before caches grow.
    assert_measured(target, 2, mode=mode, context=1100)


@pytest.mark.slow
@pytest.mark.starter
@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_of_the_starter_need_what_is_said(ranks: int) -> None:
    target = models_folder() / STARTER.name
    if not target.is_dir():
        pytest.skip("the starter model is not here")
    assert_measured(target, ranks, mode="pipeline", context=1024, drafter="head", head=HEAD)
