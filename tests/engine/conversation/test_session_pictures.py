"""A session whose messages show pictures: what is read, counted, told, drafted and refused; and
each family of models that see, as a whole tiny model with its own tower and text half."""

from dataclasses import replace
from functools import cache, partial
from unittest import mock

import pytest

from engine.conversation import pair_costs
from engine.conversation.loading import load
from engine.conversation.scheduler import Job, Scheduler
from engine.conversation.session import Session
from engine.core.decoder import Decoder
from engine.draft_length.calibrate import calibrate
from engine.draft_length.policy import Automatic, Fixed
from engine.drafters import NoDrafter
from engine.drafters.copying import LookupDrafter
from engine.drafters.early_exit import EarlyExitDrafter
from engine.drafters.model import ModelDrafter
from engine.events import Prefill, Source
from engine.process.host import failure
from engine.request import ChatMessage, Request, Sampling, chat
from engine.virtual_ids import is_virtual, pictures_in, virtual_ids
from models.errors import Problem
from models.model_folder import inspect
from tests.support.engine.heads import lively_drafter
from tests.support.engine.helpers import assert_as_fresh
from tests.support.engine.pictures import (
    TEMPLATE,
    VOCABULARY,
    NoiseTower,
    picture,
    said,
    seeing,
    seeing_tokenizer,
)
from tests.support.engine.seeing_folders import FAMILIES, write_seeing
from tests.support.engine.sessions import check_laws, done_of, reused_of, tokens_of
from tests.support.engine.tiny import noisy, shallow
from tests.support.mostly_slow import mostly_slow

GREEDY = Request(sampling=Sampling(), max_tokens=12)
TOLD = ChatMessage("assistant", "It is it.")


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return seeing_tokenizer(tmp_path_factory.mktemp("tokenizer"))


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    return [picture(folder, number) for number in range(3)]


def new(tokenizer, architecture="llama", **changes):
    model = shallow(architecture, vocabulary=VOCABULARY)
    session = Session(seeing(model, tokenizer, architecture, **changes))
    session.drafter, session.policy = LookupDrafter(), Fixed(3)
    return session


def answer(session, messages, request=GREEDY):
    events = list(session.answer(messages, request))
    check_laws(events, session.target.tokenizer)
    return events


def test_sources_are_found_after_a_picture(tokenizer, pictures):
    asked = [said("Abc", pictures[0]), TOLD, said("Def", *pictures[1:])]
    prepared = new(tokenizer).prepare(chat(asked), GREEDY)
    place = prepared.tokens.index(ord("D"))
    assert prepared.sources.of(place) == Source(2, 0)
    assert prepared.sources.of(place + 2) == Source(2, 2)
    assert prepared.sources.of(prepared.tokens.index(ord("b"))) == Source(0, 1)
    rows = pictures_in(prepared.tokens)[1]
    assert prepared.sources.of(rows.start + 1) is None


def test_neighbours_are_told_apart(tokenizer, pictures):
    """Where a family puts nothing around its rows."""
    session = new(tokenizer)
    grid = session.target.tower.size_of(12, 8)
    bare = replace(grid, text=grid.text.strip("()"))
    with mock.patch.object(NoiseTower, "size_of", return_value=bare):
        tokens = session.encode(chat([said("So?", *pictures[:2])]))
        assert pictures_in(tokens) == [range(1, 13)]
        assert answer(session, [said("So?", *pictures[:2])])
        assert session.target.tower.seen == 2


def test_a_name_of_a_token_in_a_text_is_no_picture(tokenizer, pictures):
    session = new(tokenizer)
    for text in ("<picture>", "<row>", "<row><picture><row>"):
        tokens = session.encode(chat([said(text, pictures[0])]))
        assert [len(each) for each in pictures_in(tokens)] == [6]
        assert tokenizer.decode(tokens[9 : 9 + len(text)]) == text
    answered = [said("So?", pictures[0]), ChatMessage("assistant", "<row>", written="<row>")]
    for messages in (answered, [*answered, said("And?")]):
        tokens = session.encode(chat(messages))
        assert [len(each) for each in pictures_in(tokens)] == [6]


def test_what_was_read_of_a_picture_is_not_read_again(tokenizer, pictures):
    session, (first, second, third) = new(tokenizer), pictures
    tower = session.target.tower
    chats = [
        [said("So?", first)],
        [said("So?", first), TOLD, said("And?")],
        [said("So?", first), TOLD, said("And?", second)],
        [said("So?", first), TOLD, said("And?", third)],
        [said("So?", first), TOLD, said("And?", second)],
        [said("So?", second)],
    ]
    reused, seen = [], []
    for messages in chats:
        with mock.patch.object(tower, "embed", wraps=tower.embed) as embed:
            reused.append(reused_of(answer(session, messages)))
            seen.append(embed.call_count)
    places = [pictures_in(session.encode(chat(messages))) for messages in chats]
    assert seen == [1, 0, 1, 1, 0, 0]  # the rows of the latest ones are held
    assert reused[0] == 0
    assert reused[1] >= places[1][0].stop
    assert reused[2] == places[2][1].start - len("(")
    assert reused[3:5] == [places[3][1].start, places[4][1].start]
    assert reused[5] == places[5][0].start


def test_neither_penalties_nor_probabilities_see_a_row(tokenizer, pictures):
    sampling = Sampling(
        repetition_penalty=1.5, presence_penalty=0.5, frequency_penalty=0.5, penalty_window=20
    )
    request = replace(GREEDY, sampling=sampling, logprobs=2)
    asked = [said("Who is who?", pictures[0])]
    plain = new(tokenizer)
    plain.policy = Fixed(0)
    expected = tokens_of(answer(plain, asked, request))
    assert tokens_of(answer(new(tokenizer), asked, request)) == expected
    drafted = new(tokenizer)
    drafted.drafter = ModelDrafter(Decoder(drafted.target.model), vocabulary=VOCABULARY)
    assert tokens_of(answer(drafted, asked, request)) == expected


@pytest.mark.quick(1)
@pytest.mark.parametrize("architecture", ["llama", "qwen3", "gemma3_text", "qwen3_5"])
def test_answers_side_by_side(architecture, tokenizer, pictures):
    """With and without pictures in front, they share passes or take turns."""
    first, second, _ = pictures
    chats = [
        [said("So?", first)],
        [said("How long is a piece of string?")],
        [said("So?", first), TOLD, said("And this?", second)],
        [said("So?", second, first)],
    ]
    alone = [tokens_of(answer(new(tokenizer, architecture), each)) for each in chats]
    session = new(tokenizer, architecture)
    of = Scheduler(
        session, parallel=4, room=1 << 20, batching=session.decoder.branches, fail=failure
    )
    seen = {str(number): [] for number in range(len(chats))}
    for number, messages in enumerate(chats):
        for event in of.add(Job(str(number), chat(messages), GREEDY)):
            seen[event.generation].append(event)
    while of.busy:
        for event in of.step():
            seen[event.generation].append(event)
    assert [tokens_of(seen[str(number)]) for number in range(len(chats))] == alone


def test_pictures_are_left_out_with_their_message(tokenizer, pictures):
    session = new(tokenizer, context=88)
    long = said("Some more words", *pictures)
    asked = [long, TOLD, said("And?", pictures[1]), TOLD, said("So?")]
    with pytest.raises(Problem):
        answer(session, [*asked[:-1], said("So?" * 12)])
    events = answer(session, asked, replace(GREEDY, overflow="rolling"))
    first = next(each for each in events if isinstance(each, Prefill))
    assert (first.left_out_from, first.left_out) == (0, 2)
    assert [len(each) for each in pictures_in(session.tokens)] == [6]
    alone = answer(new(tokenizer, context=88), asked[2:])
    assert tokens_of(events) == tokens_of(alone)


def test_pictures_that_nobody_can_be_shown_are_refused(tokenizer, pictures, tmp_path):
    session, first = new(tokenizer), pictures[0]
    blind = Session(replace(session.target, tower=None))
    told = seeing_tokenizer(tmp_path / "told", template=TEMPLATE.replace("<picture>", ""))
    refused = [
        (blind, said("So?", first), "cannot see"),
        (session, said("So?", first, role="system"), "Only user messages"),
        (new(told), said("So?", first), "does not support these pictures"),
        (session, said("So?", replace(first, path=str(tmp_path / "lost.png"))), "missing"),
        (session, said("So?", replace(first, path=pictures[1].path)), "has changed"),
        (session, said("So?", replace(first, width=4)), "damaged"),
    ]
    for asked, message, why in refused:
        messages = [message, *([said("So?")] if message.role == "system" else [])]
        with pytest.raises(Problem, match=why):
            answer(asked, messages)
    with pytest.raises(Problem):
        list(session.complete([1, *virtual_ids("a" * 64, 3), 2], GREEDY))
    expected = tokens_of(answer(new(tokenizer), [said("So?", first)]))
    assert tokens_of(answer(session, [said("So?", first)])) == expected  # nothing is lost


def test_a_pair_is_measured_after_a_picture(tokenizer, pictures, monkeypatch):
    """As when the user changes the drafter in the middle of a chat."""
    asked = [said("So?", pictures[0]), TOLD, said("And?", pictures[1])]
    monkeypatch.setattr(pair_costs, "calibrate", partial(calibrate, budget_seconds=0.05))
    expected = tokens_of(answer(new(tokenizer, "qwen3"), asked))
    session = new(tokenizer, "qwen3")
    answer(session, asked[:1])
    own = Decoder(shallow("llama", vocabulary=VOCABULARY))
    for drafter in (
        ModelDrafter(own, vocabulary=VOCABULARY),
        lively_drafter(session.decoder, seed=5),
    ):
        session.drafter, session.policy = drafter, Automatic()
        session.calibrate()
        assert tokens_of(answer(session, asked)) == expected


def test_a_conversation_goes_on_with_a_target_that_cannot_see(tokenizer, pictures):
    session = new(tokenizer)
    blind = Session(replace(session.target, tower=None))
    earlier = [ChatMessage("user", "So?", pictures=tuple(pictures[:2])), TOLD]
    asked = [*earlier, ChatMessage("user", "And now?")]
    events = answer(blind, asked)
    told = blind.encode(chat([*earlier, ChatMessage("user", "")]))
    assert not any(map(is_virtual, told))
    assert done_of(events).stats.prompt_tokens == len(blind.encode(chat(asked)))
    with pytest.raises(Problem):
        blind.encode(chat([*asked, TOLD, replace(earlier[0], content="Again?")]))


# Families

SHORT = replace(GREEDY, max_tokens=5)


@pytest.fixture(scope="module")
def targets(tmp_path_factory):
    folder = tmp_path_factory.mktemp("targets")
    return cache(lambda family: load(inspect(write_seeing(family, folder / family))))


@pytest.fixture(scope="module")
def shapes(tmp_path_factory):
    """Of several shapes; the last is cut into tiles by LFM2."""
    folder = tmp_path_factory.mktemp("pictures")
    sizes = [(9, 7), (9, 7), (5, 20), (30, 12)]
    return [picture(folder, number, across=x, down=y) for number, (x, y) in enumerate(sizes)]


@pytest.mark.parametrize("family", mostly_slow(FAMILIES, quick=["qwen3_vl"]))
def test_a_family_sees_and_drafts(family, targets, shapes):
    target = targets(family)
    chats = [
        [said("So?", shapes[0])],
        [said("So?", shapes[1])],
        [said("So?", shapes[1]), TOLD, said("And these?", *shapes[2:])],
    ]

    def plainly(messages):
        session = Session(target)
        session.drafter, session.policy = NoDrafter(), Fixed(0)
        return tokens_of(list(session.answer(messages, SHORT)))

    plain = [plainly(messages) for messages in chats]
    assert plain[0] != plain[1]
    session = Session(target)
    model, decoder = session.target.model, session.decoder
    for drafter in (
        LookupDrafter(),
        EarlyExitDrafter(decoder, layers=len(model.layers) - 1),
        ModelDrafter(Decoder(noisy(model)), vocabulary=decoder.vocabulary),
    ):
        session.drafter, session.policy = drafter, Fixed(3)
        written = [tokens_of(list(session.answer(messages, SHORT))) for messages in chats]
        assert written == plain, drafter.name
    fresh = Decoder(target.model, sights=session.decoder.sights)
    assert_as_fresh(session.decoder, list(session.tokens), fresh)


def test_the_prompt_is_that_of_the_family(targets, shapes):
    """With a placeholder for each row: what stands around them is text."""
    expected = {
        "lfm2-vl": ("<|image_start|>", "<image>", "<|image_end|>"),
        "qwen3_vl": ("<|vision_start|>", "<|image_pad|>", "<|vision_end|>"),
        "gemma3": ("\n\n<start_of_image>", "<image_soft_token>", "<end_of_image>\n\n"),
        "gemma4": ("<|image>", "<|image|>", "<image|>"),
    }
    for family, (before, row, after) in expected.items():
        target = targets(family)
        session = Session(target)
        tokens = session.encode(chat([said("So?", shapes[0])]))
        rows = sum(map(is_virtual, tokens))
        placeholder = target.tokenizer.convert_tokens_to_ids(row)
        blind = [placeholder if is_virtual(token) else token for token in tokens]
        text = target.tokenizer.decode(blind, skip_special_tokens=False)
        assert text == f"<user>{before}{row * rows}{after}So?<assistant>"
