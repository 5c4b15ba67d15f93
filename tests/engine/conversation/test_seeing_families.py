"""Each family of models that see, as a whole tiny model with its own tower and text half."""

import mlx.core as mx
import pytest

from engine.conversation.loading import load
from engine.conversation.session import Session
from engine.core.decoder import Decoder
from engine.draft_length.policy import Fixed
from engine.drafters import NoDrafter
from engine.drafters.copying import LookupDrafter
from engine.drafters.early_exit import EarlyExitDrafter
from engine.drafters.model import ModelDrafter
from engine.request import ChatMessage, Request, Sampling, chat
from engine.virtual_ids import is_virtual
from models.errors import Problem
from models.model_folder import inspect
from tests.support.engine.helpers import assert_as_fresh
from tests.support.engine.pictures import picture, said
from tests.support.engine.seeing_folders import FAMILIES, write_seeing
from tests.support.engine.sessions import tokens_of
from tests.support.engine.tiny import noisy
from tests.support.mostly_slow import mostly_slow

GREEDY = Request(sampling=Sampling(), max_tokens=5)
TOLD = ChatMessage("assistant", "It is it.")


@pytest.fixture(scope="module")
def targets(tmp_path_factory):
    made = {}

    def target(family):
        if family not in made:
            folder = write_seeing(family, tmp_path_factory.mktemp("target") / family)
            made[family] = load(inspect(folder))
        return made[family]

    return target


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """Of several shapes; the last is cut into tiles by LFM2."""
    folder = tmp_path_factory.mktemp("pictures")
    sizes = [(9, 7), (9, 7), (5, 20), (30, 12)]
    return [picture(folder, number, across=x, down=y) for number, (x, y) in enumerate(sizes)]


def drafters(session):
    model, target = session.target.model, session.decoder
    drafting = Decoder(noisy(model))
    return [
        LookupDrafter(),
        EarlyExitDrafter(target, layers=len(model.layers) - 1),
        ModelDrafter(drafting, vocabulary=target.vocabulary),
    ]


@pytest.mark.parametrize("family", mostly_slow(FAMILIES, quick=["qwen3_vl"]))
def test_a_family_sees_and_drafts(family, targets, pictures):
    target = targets(family)
    chats = [
        [said("So?", pictures[0])],
        [said("So?", pictures[1])],
        [said("So?", pictures[1]), TOLD, said("And these?", *pictures[2:])],
    ]

    def plainly(messages):
        session = Session(target)
        session.drafter, session.policy = NoDrafter(), Fixed(0)
        return tokens_of(list(session.answer(messages, GREEDY)))

    plain = [plainly(messages) for messages in chats]
    assert plain[0] != plain[1]
    session = Session(target)
    for drafter in drafters(session):
        session.drafter, session.policy = drafter, Fixed(3)
        written = [tokens_of(list(session.answer(messages, GREEDY))) for messages in chats]
        assert written == plain, drafter.name
    fresh = Decoder(target.model, sights=session.decoder.sights)
    assert_as_fresh(session.decoder, list(session.tokens), fresh)


def test_the_prompt_is_that_of_the_family(targets, pictures):
    """With a placeholder for each row: what stands around them is text."""
    expected = {
        "lfm2-vl": ("<|image_start|>", "<image>", "<|image_end|>"),
        "qwen3_vl": ("<|vision_start|>", "<|image_pad|>", "<|vision_end|>"),
        "gemma3": ("\n\n<start_of_image>", "<image_soft_token>", "<end_of_image>\n\n"),
        "gemma4": ("<|image>", "<|image|>", "<image|>"),
    }
    for family, (before, row, behind) in expected.items():
        target = targets(family)
        session = Session(target)
        tokens = session.encode(chat([said("So?", pictures[0])]))
        rows = sum(map(is_virtual, tokens))
        placeholder = target.tokenizer.convert_tokens_to_ids(row)
        blind = [placeholder if is_virtual(token) else token for token in tokens]
        text = target.tokenizer.decode(blind, skip_special_tokens=False)
        assert text == f"<user>{before}{row * rows}{behind}So?<assistant>"


def test_a_tower_that_is_left_out_is_told(tmp_path):
    folder = write_seeing("qwen3_vl", tmp_path / "blind")
    weights = mx.load(str(folder / "model.safetensors"))
    kept = {name: each for name, each in weights.items() if not name.startswith("vision_tower")}
    mx.save_safetensors(str(folder / "model.safetensors"), kept, {"format": "mlx"})
    blind = load(inspect(folder))
    assert blind.tower is None
    shown = picture(tmp_path, 0)
    with pytest.raises(Problem, match="lacks the vision part"):
        list(Session(blind).answer([said("So?", shown)], GREEDY))
    assert tokens_of(list(Session(blind).answer([said("So?")], GREEDY)))
