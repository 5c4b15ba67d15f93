"""What was read of prompts with pictures and kept on disk: as if it were read anew."""

from contextlib import nullcontext
from dataclasses import replace

import pytest

from engine.core.decoder import Decoder
from engine.core.loop import alone
from engine.request import ChatMessage, chat
from engine.virtual_ids import pictures_in
from tests.support.engine import kept
from tests.support.engine.backends import on_a_mac
from tests.support.engine.helpers import assert_as_fresh
from tests.support.engine.kept import ROWS, files, new
from tests.support.engine.pictures import ROW, TOWERS, NoiseTower, picture, said, seeing_tokenizer
from tests.support.engine.sessions import check_laws, reused_of, tokens_of
from tests.support.mostly_slow import mostly_slow

pytestmark = pytest.mark.usefixtures("on_the_cpu")

GREEDY = replace(kept.GREEDY, max_tokens=5)
TOLD = ChatMessage("assistant", "It is it.")
DOCUMENT = "It was a dark and stormy night; the rain fell in torrents."


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return seeing_tokenizer(tmp_path_factory.mktemp("tokenizer"))


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """One over a border of blocks, and two of a size."""
    folder = tmp_path_factory.mktemp("pictures")
    sizes = [(5, 4), (3, 2), (3, 2)]
    return [picture(folder, number, across=x, down=y) for number, (x, y) in enumerate(sizes)]


def seeing(target, tokenizer, architecture):
    row = tokenizer.convert_tokens_to_ids(ROW)
    return replace(target, tokenizer=tokenizer, tower=NoiseTower(row, 64, **TOWERS[architecture]))


def about(question, *shown):
    return replace(said(DOCUMENT + question, *shown), attached=len(DOCUMENT))


def answer(session, messages):
    """The events, their laws and the caches checked, then what is to be kept is kept."""
    begun = session.prepare(chat(messages), GREEDY)
    events = list(alone(session.decoder, session.begin(begun)))
    check_laws(events, session.target.tokenizer)
    check(session)
    while session.keep():
        pass
    return events


def check(session):
    fresh = Decoder(session.decoder.model, sights=session.decoder.sights)
    assert_as_fresh(session.decoder, session._tokens, fresh)


@pytest.fixture
def device(request):
    with on_a_mac() if request.param == "GPU" else nullcontext():
        yield


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("device", mostly_slow(["CPU", "GPU"], quick=["GPU"]), indirect=True)
@pytest.mark.parametrize(
    "architecture",
    mostly_slow(["llama", "qwen3", "gemma3_text", "qwen3_5", "lfm2"], quick=["qwen3"]),
)
def test_another_question_is_answered_as_without(
    targets, folder, architecture, tokenizer, pictures
):
    target = seeing(targets(architecture), tokenizer, architecture)
    large, first, second = pictures
    chats = [
        [about("Why?", large)],
        [about("How?", large)],
        [about("Why?", large), TOLD, said("And this?", first)],
        [about("Why?", large), TOLD, said("And this?", second)],
        [about("Why?", first)],
        [about("Why?", second)],
    ]
    reused = []
    for messages in chats:
        expected = list(new(target, None).answer(messages, GREEDY))
        given = answer(new(target, folder), messages)
        assert tokens_of(given) == tokens_of(expected)
        reused.append(reused_of(given))
    assert reused[0] == 0
    assert reused[1] >= 2 * ROWS
    assert reused[4:] == [0, 0]


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("device", ["CPU", "GPU"], indirect=True)
def test_blocks_that_end_in_a_picture_are_read_up_to_it(targets, folder, tokenizer, pictures):
    """As those behind them were deleted."""
    target = seeing(targets("llama"), tokenizer, "llama")
    messages = [about("Why?", pictures[0])]
    expected = answer(new(target, folder), messages)
    kept = sorted(files(folder), key=lambda path: path.stat().st_mtime_ns)
    session = new(target, folder)
    (rows,) = pictures_in(session.encode(chat(messages)))
    assert rows.start < ROWS < rows.stop
    for path in kept:
        path.unlink()
        assert tokens_of(answer(new(target, folder), messages)) == tokens_of(expected)
