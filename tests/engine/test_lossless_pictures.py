"""After pictures, greedy decoding with drafts writes what it writes without, whatever was read
before: families x drafters x lengths, on the CPU bit for bit and as on a Mac up to near ties."""

import functools
import itertools
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from engine.conversation.session import Session
from engine.core.decoder import Decoder
from engine.drafters.model import ModelDrafter
from engine.request import ChatMessage, Request, Sampling, chat
from tests.support.engine import gemma4, sessions
from tests.support.engine.backends import on_a_mac
from tests.support.engine.blocks import block_drafter
from tests.support.engine.eagles import eagle_drafter
from tests.support.engine.heads import lively_drafter
from tests.support.engine.helpers import assert_as_fresh, now_and_then
from tests.support.engine.pictures import (
    TOWERS,
    VOCABULARY,
    picture,
    said,
    seeing,
    seeing_tokenizer,
)
from tests.support.engine.plain_texts import PlainTexts
from tests.support.engine.sessions import check_laws, tokens_of
from tests.support.engine.tiny import noisy, shallow
from tests.support.engine.trees import Guessing

GREEDY = Request(sampling=Sampling(), max_tokens=10)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return seeing_tokenizer(tmp_path_factory.mktemp("tokenizer"))


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    sizes = [(3, 2), (3, 2), (5, 4), (1, 2)]
    return [picture(folder, i, across=x, down=y) for i, (x, y) in enumerate(sizes)]


@functools.cache
def model_of(architecture):
    make = gemma4.build_target if architecture in gemma4.TARGETS else shallow
    return make(architecture, vocabulary=VOCABULARY)


noisy_of = functools.cache(lambda architecture: noisy(model_of(architecture)))


def target_of(tokenizer, architecture):
    return seeing(model_of(architecture), tokenizer, architecture)


def use(session, kind, length, *, script=()):
    """Draft with a drafter of this kind. `script`: the prompt and the answer to it, for trees."""
    target, name = session.decoder, session.target.folder.model_type
    makers = {
        "head": lambda: lively_drafter(target, seed=5),
        "EAGLE-3": lambda: eagle(target),
        "block": lambda: block_drafter(target, "dspark"),
        "model": lambda: ModelDrafter(Decoder(noisy_of(name)), vocabulary=target.vocabulary),
        "trees": lambda: Guessing(script, vocabulary=VOCABULARY, wrong=now_and_then(1)),
    }
    return sessions.use(session, kind, name, length=length, **makers)


def eagle(target):
    with TemporaryDirectory() as folder:
        return eagle_drafter("EAGLE-3", target, Path(folder), seed=3)


DRAFTERS = (
    *("lookup", "suffix", "lookahead", "early-exit", "head", "EAGLE-3"),
    *("block", "model", "trees"),
)
MATRIX = [*itertools.product(TOWERS, DRAFTERS, (1, 2, 3, 5, 8))]
ROWS = (2, 3, 5, 9)
_PLAIN = {}


def answer(session, messages):
    """The tokens of an answer, and its laws checked."""
    events = list(session.answer(messages, GREEDY))
    check_laws(events, session.target.tokenizer)
    return tokens_of(events)


def plainly(target, messages):
    """The answer of a session that has read nothing before, without drafts."""
    key = target.folder.model_type, tuple(messages)
    if key not in _PLAIN:
        _PLAIN[key] = answer(use(Session(target), "none", 0), messages)
    return _PLAIN[key]


def chats(pictures):
    """Chats that follow each other in a session: other pictures in the same place, a picture more,
    none, two in a message, the first again, and one that goes on after it."""
    first, same_size, large, small = pictures
    question = "What is in it? It is "
    told = ChatMessage("assistant", "It is it.")
    return [
        [said(question, first)],
        [said(question, same_size)],
        [said(question, same_size), told, said("And in it?", large)],
        [said(question, same_size), told, said("And it?", small, first)],
        [said(question)],
        [said("", first, first)],
        [said(question, first)],
        [said(question, first), told, said("What is in it?")],
    ]


def answers(session, pictures, kind, length, plain_of, *, first=None):
    """Of each chat the prompt, the plain answer to it, and the one with drafts."""
    use(session, "none" if kind == "trees" else kind, length)
    for messages in chats(pictures)[:first]:
        prompt = session.prepare(chat(messages), GREEDY).tokens
        plain = plain_of(messages, prompt)
        if kind == "trees":
            use(session, kind, length, script=[*prompt, *plain])
        yield prompt, plain, answer(session, messages)


def differing(target, pictures, kind, length, *, first=None):
    """The numbers of the chats whose answers are not the plain ones."""
    session = Session(target)
    told = answers(session, pictures, kind, length, lambda m, _: plainly(target, m), first=first)
    wrong = [number for number, (_, plain, written) in enumerate(told) if written != plain]
    fresh = Decoder(session.decoder.model, sights=session.decoder.sights)
    assert_as_fresh(session.decoder, session.tokens, fresh)
    return wrong


def test_no_divergence_in_a_part_of_the_matrix(tokenizer, pictures):
    for architecture, kind, length in MATRIX[11::97]:
        wrong = differing(target_of(tokenizer, architecture), pictures, kind, length, first=3)
        assert wrong == [], (architecture, kind, length)


@pytest.mark.slow
@pytest.mark.parametrize("architecture", TOWERS)
def test_no_divergence_in_the_matrix(architecture, tokenizer, pictures):
    trials = [trial for trial in MATRIX if trial[0] == architecture][::3]
    target = target_of(tokenizer, architecture)
    runs = {trial: differing(target, pictures, *trial[1:]) for trial in trials}
    assert {trial: wrong for trial, wrong in runs.items() if wrong} == {}


def ties(target, pictures, trials, *, first=None):
    """How many near ties there are in the answers to all chats, and how many differ otherwise."""
    found = []
    for kind, length in trials:
        session = Session(target)
        texts = PlainTexts(session.decoder.another, rows=ROWS)

        def plain_of(_, prompt, texts=texts):
            return texts.plain(prompt, GREEDY.max_tokens).text

        told = answers(session, pictures, kind, length, plain_of, first=first)
        for prompt, plain, written in told:
            if written != plain:
                found += texts.forks(prompt, written, texts.roundings(prompt, plain))
    near = sum(fork.near_tie for fork in found)
    return near, len(found) - near


def test_only_near_ties_differ_on_a_mac_in_a_part_of_the_matrix(tokenizer, pictures):
    with on_a_mac():
        for architecture, kind, length in MATRIX[17::180]:
            target = target_of(tokenizer, architecture)
            _, different = ties(target, pictures, [(kind, length)], first=3)
            assert different == 0, (architecture, kind, length)


@pytest.mark.slow
@pytest.mark.parametrize("architecture", TOWERS)
def test_only_near_ties_differ_on_a_mac(architecture, tokenizer, pictures):
    trials = [trial[1:] for trial in MATRIX if trial[0] == architecture][::5]
    with on_a_mac():
        near, different = ties(target_of(tokenizer, architecture), pictures, trials)
    assert different == 0, f"and {near} near ties"
