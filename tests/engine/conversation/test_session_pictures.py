"""A session whose messages show pictures: what is read, counted, told, drafted and refused."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest import mock

import pytest

from engine.conversation import pair_costs
from engine.conversation.scheduler import Job, Scheduler
from engine.conversation.session import Session
from engine.core.decoder import Decoder
from engine.draft_length.calibrate import calibrate
from engine.draft_length.policy import Automatic, Fixed
from engine.drafters.copying import LookupDrafter
from engine.drafters.model import ModelDrafter
from engine.events import Prefill, Source
from engine.process.host import failure
from engine.request import ChatMessage, Request, Sampling, chat
from engine.virtual_ids import is_virtual, pictures_in, virtual_ids
from models.errors import Problem
from models.model_folder import ModelFolder
from tests.support.engine.heads import lively_drafter
from tests.support.engine.pictures import (
    TEMPLATE,
    VOCABULARY,
    NoiseTower,
    picture,
    said,
    seeing,
    seeing_tokenizer,
)
from tests.support.engine.sessions import check_laws, done_of, reused_of, tokens_of
from tests.support.engine.tiny import shallow

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


def tower_of(session):
    assert isinstance(session.target.tower, NoiseTower)
    return session.target.tower


# Tokens


def test_a_picture_is_its_rows_in_the_prompt(tokenizer, pictures):
    session, first = new(tokenizer), pictures[0]
    tokens = session.encode(chat([said("So?", first)]))
    blind = session.encode(chat([ChatMessage("user", "()So?")]))
    rows = list(virtual_ids(first.digest, 6))
    assert pictures_in(tokens) == [range(2, 8)]
    assert tokens[2:8] == rows
    assert tokens[:2] + tokens[8:] == blind
    prepared = session.prepare(chat([said("", first)]), GREEDY)
    assert len(prepared.tokens) == len(tokens) - len("So?")


def test_neighbours_are_told_apart(tokenizer, pictures):
    """Where a family puts nothing around its rows."""
    session = new(tokenizer)
    grid = tower_of(session).size_of(12, 8)
    bare = replace(grid, text=grid.text.strip("()"))
    with mock.patch.object(NoiseTower, "size_of", return_value=bare):
        tokens = session.encode(chat([said("So?", *pictures[:2])]))
        assert pictures_in(tokens) == [range(1, 13)]
        assert answer(session, [said("So?", *pictures[:2])])
        assert tower_of(session).seen == 2


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


# Reading


def test_what_was_read_of_a_picture_is_not_read_again(tokenizer, pictures):
    session, (first, second, third) = new(tokenizer), pictures
    tower = tower_of(session)
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


# Told and drafted


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


# Several answers


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
        assert not list(of.add(Job(str(number), chat(messages), GREEDY)))[1:]
    while of.busy:
        for event in of.step():
            seen[event.generation].append(event)
    assert [tokens_of(seen[str(number)]) for number in range(len(chats))] == alone


# Room


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


# Refused


def test_pictures_that_nobody_can_be_shown_are_refused(tokenizer, pictures, tmp_path):
    session, first = new(tokenizer), pictures[0]
    blind = Session(replace(session.target, tower=None))
    folder = ModelFolder(Path("tiny"))
    vars(folder)["config"] = {"model_type": "llama"}
    told = seeing_tokenizer(tmp_path / "told", template=TEMPLATE.replace("<picture>", ""))
    lost = replace(first, path=str(tmp_path / "lost.png"))
    other = replace(first, path=pictures[1].path)
    smaller = replace(first, width=4)
    refused = [
        (blind, said("So?", first), "cannot see"),
        (session, said("So?", first, role="system"), "Only user messages"),
        (new(told), said("So?", first), "does not support these pictures"),
        (session, said("So?", lost), "missing or damaged"),
        (session, said("So?", other), "has changed"),
        (session, said("So?", smaller), "missing or damaged"),
    ]
    for asked, message, why in refused:
        messages = [message, *([said("So?")] if message.role == "system" else [])]
        with pytest.raises(Problem, match=why):
            answer(asked, messages)
    with pytest.raises(Problem, match="no longer available"):
        list(session.complete([1, *virtual_ids("a" * 64, 3), 2], GREEDY))
    expected = tokens_of(answer(new(tokenizer), [said("So?", first)]))
    assert tokens_of(answer(session, [said("So?", first)])) == expected  # nothing is lost


def test_sources_are_found_behind_a_picture(tokenizer, pictures):
    session = new(tokenizer)
    asked = [said("Abc", pictures[0]), TOLD, said("Def", *pictures[1:])]
    answer_ = session.prepare(chat(asked), GREEDY)
    place = answer_.tokens.index(ord("D"))
    assert answer_.sources.of(place) == Source(2, 0)
    assert answer_.sources.of(place + 2) == Source(2, 2)
    assert answer_.sources.of(answer_.tokens.index(ord("b"))) == Source(0, 1)
    rows = pictures_in(answer_.tokens)[1]
    assert answer_.sources.of(rows.start + 1) is None


def test_a_pair_is_measured_behind_a_picture(tokenizer, pictures, monkeypatch):
    """As when a person changes the drafter in the middle of a chat."""
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
