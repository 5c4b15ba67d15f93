"""What was read of a document, also with pictures, and kept on disk: answers and caches are as if
it were read again."""

import copy
import itertools
import resource
import signal
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mlx_lm.models.cache import ArraysCache

import engine.conversation.kept_prefixes
import engine.core.decoder
from engine.conversation.kept_blocks import KeptBlocks, forget, held_bytes
from engine.conversation.kept_prefixes import Unkept
from engine.conversation.loading import load
from engine.conversation.session import Session
from engine.core.cache import QuantizedCaches
from engine.core.decoder import Decoder
from engine.core.loop import alone
from engine.draft_length.policy import Fixed
from engine.drafters.copying import LookupDrafter
from engine.request import ChatMessage, Prompt, Request, Sampling, chat
from engine.virtual_ids import pictures_in
from models.model_folder import inspect
from tests.support.engine import tiny
from tests.support.engine.backends import on_a_mac
from tests.support.engine.helpers import assert_as_fresh, build_wide
from tests.support.engine.pictures import ROW, TOWERS, NoiseTower, picture, said, seeing_tokenizer
from tests.support.engine.sessions import (
    VOCABULARY,
    check_caches,
    check_laws,
    done_of,
    reused_of,
    tokens_of,
    use,
)
from tests.support.mostly_slow import examples, mostly_slow

pytestmark = pytest.mark.usefixtures("on_the_cpu")

ROWS = 16
A = "a" * 64
DOCUMENT = [65 + 7 * i % 26 for i in range(5 * ROWS + 3)]  # and five whole blocks
GREEDY = Request(sampling=Sampling(), max_tokens=6, keep_as=(A,))
QUANTIZED = QuantizedCaches(bits=8, group_size=32, start=3 * ROWS + 5)


STATES = ["gemma3_text", "qwen3_5", "lfm2", "mamba"]  # windows of 16 tokens; recurrent layers


@pytest.fixture(autouse=True, scope="module")
def short_blocks():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine.core.decoder, "PREFILL_ROWS", ROWS)
        patch.setattr(engine.conversation.kept_prefixes, "PREFILL_ROWS", ROWS)
        yield


@pytest.fixture(scope="module")
def targets(tmp_path_factory):
    """A loaded target of an architecture; its files are only there to be told apart."""

    @cache
    def target(architecture):
        plain, wide = architecture.removesuffix(" wide"), architecture.endswith(" wide")
        folder = tmp_path_factory.mktemp(architecture)
        tiny.write_folder(plain, folder, layers=2)
        made = load(inspect(folder))
        if wide:
            made = replace(made, model=build_wide(plain, vocabulary=VOCABULARY, layers=2))
        return made

    return target


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "kept"


def new(target, folder, *, quantized=None):
    """A session of a process that has read nothing yet."""
    kept = None if folder is None else KeptBlocks(folder, most_bytes=1 << 30)
    session = Session(target, kept=kept, quantized=quantized)
    session.drafter, session.policy = LookupDrafter(), Fixed(3)
    return session


def answer(session, prompt, request=GREEDY, *, said=None):
    """The events, their laws and the caches checked, then what is to be kept is kept. `said`: the
    chat, in place of its tokens."""
    begun = session.prepare(said or Prompt(tokens=tuple(prompt)), request)
    events = list(alone(session.decoder, session.begin(begun)))
    check_laws(events, session.target.tokenizer)
    check(session)
    if session.keep():
        while session.keep():
            pass
        check(session)
    return events


def check(session):
    decoder = session.decoder
    how = {"quantized": decoder.timeline.quantized, "block": decoder.block}
    fresh = Decoder(decoder.model, sights=decoder.sights, **how)
    assert_as_fresh(decoder, session.tokens, fresh)


def files(folder):
    return sorted(folder.glob("*/*.safetensors"))


INSTRUCTED = replace(GREEDY, keep_as=(), keep_instructions=True)
SYSTEM = ChatMessage("system", "Answer in as few words as you can. " * 2)
BEGINNING = (1 + len(SYSTEM.content) + 1) // ROWS  # in whole blocks, with the roles


def ask(session, *said):
    """As `answer`, for a chat after instructions."""
    roles = itertools.cycle(("user", "assistant"))
    messages = [SYSTEM, *(ChatMessage(role, text) for role, text in zip(roles, said, strict=False))]
    return answer(session, (), INSTRUCTED, said=chat(messages))


@pytest.mark.quick(1)
@pytest.mark.parametrize("architecture", mostly_slow(STATES, quick=["qwen3_5", "gemma3_text"]))
def test_windows_and_recurrent_states_are_kept_at_the_last_border(targets, folder, architecture):
    target, border = targets(architecture), 5 * ROWS
    answer(new(target, folder), [*DOCUMENT, 1, 2, 3])
    assert len(files(folder)) == 5 + 1
    for question in ([1, 2, 3], [5] * 70):
        session, prompt = new(target, folder), [*DOCUMENT, *question]
        given = answer(session, prompt)
        assert reused_of(given) == border
        assert tokens_of(given) == tokens_of(list(new(target, None).complete(prompt, GREEDY)))
    assert reused_of(answer(session.copy(), [*DOCUMENT, 9])) >= border, "the border is marked"
    earlier = [*DOCUMENT[: border - ROWS], 9, 9]
    given = answer(new(target, folder), earlier)
    assert reused_of(given) == 0, "states cannot be cut"
    assert tokens_of(given) == tokens_of(answer(new(target, None), earlier))


@pytest.mark.parametrize("architecture", mostly_slow(STATES, quick=["qwen3_5"]))
def test_blocks_whose_state_is_damaged_count_as_not_there(targets, folder, architecture):
    target = targets(architecture)
    expected = tokens_of(answer(new(target, folder), DOCUMENT))
    (state,) = (path for path in files(folder) if path.stem.endswith("-state"))
    sound = state.read_bytes()
    state.write_bytes(sound[:-1] + bytes([sound[-1] ^ 1]))
    given = answer(new(target, folder), DOCUMENT)
    assert (reused_of(given), tokens_of(given)) == (0, expected)
    assert reused_of(answer(new(target, folder), DOCUMENT)) == 5 * ROWS, "it is kept again"


class OtherCaches(ArraysCache):
    """Hold more than their arrays, for all that is known."""


class Grouped(Decoder):
    group = "pipeline 2+2 over ring"


def test_what_cannot_be_kept_is_not_and_it_is_said(targets, folder, monkeypatch):
    llama, recurrent = targets("llama"), targets("qwen3_5")
    # Blocks before the last were read with other keys and values than are there in the end.
    late = replace(QUANTIZED, start=5 * ROWS)
    answer(new(targets("llama wide"), folder, quantized=late), [*DOCUMENT, 1])
    assert files(folder) == []
    nowhere = replace(llama, folder=replace(llama.folder, path=Path("gone")))
    caches = [
        OtherCaches(len(each.cache)) if isinstance(each, ArraysCache) else each
        for each in recurrent.model.make_cache()
    ]
    monkeypatch.setattr(recurrent.model, "make_cache", lambda: copy.deepcopy(caches), raising=False)
    for target, why in ((nowhere, Unkept.NO_FILES), (recurrent, Unkept.LAYERS)):
        session = new(target, folder)
        list(session.complete(DOCUMENT, GREEDY))
        assert not session.keep()
        assert session.unkept is why
        assert files(folder) == []
    answer(new(llama, folder), DOCUMENT)
    kept = files(folder)
    session = new(replace(llama, decoder=Grouped), folder)
    assert reused_of(answer(session, DOCUMENT)) == 0
    assert session.unkept is Unkept.ON_SEVERAL_MACS
    assert files(folder) == kept


def test_other_weights_have_other_names(targets, folder):
    answer(new(targets("llama"), folder), DOCUMENT)
    assert reused_of(answer(new(targets("qwen2"), folder), DOCUMENT)) == 0
    changed = targets("llama")
    weights = next(changed.folder.path.glob("*.safetensors"))
    again = load(inspect(changed.folder.path))
    assert reused_of(answer(new(again, folder), DOCUMENT)) > 0
    weights.touch()  # as if they were other ones that begin alike
    answer(new(again, folder), DOCUMENT[::-1])
    other = load(inspect(changed.folder.path))
    for prompt in (DOCUMENT, DOCUMENT[::-1]):
        assert reused_of(answer(new(other, folder), prompt)) == 0


PARTS = st.lists(st.sampled_from([3, ROWS, ROWS, 2 * ROWS, 5]), min_size=1, max_size=5)
ACTS = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), PARTS),
        st.tuples(st.just("ask"), PARTS),
        st.tuples(st.just("restart"), st.just([])),
        st.tuples(st.just("go on"), st.just([4])),
        st.tuples(st.just("damage"), st.lists(st.integers(0, 9999), min_size=2, max_size=2)),
        st.tuples(st.just("lose"), st.lists(st.integers(0, 99), min_size=1, max_size=1)),
    ),
    min_size=3,
    max_size=7,
)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=examples(10),
)
@given(acts=ACTS, quantized=st.booleans())
def test_whatever_came_before(targets, tmp_path_factory, acts, quantized):
    """Prompts that begin alike, files that are lost or damaged, and processes that end."""
    folder = tmp_path_factory.mktemp("kept") / "blocks"
    target, caches = targets("llama wide"), QUANTIZED if quantized else None
    request = replace(GREEDY, max_tokens=3)
    session, prompt = new(target, folder, quantized=caches), [1]
    for act, numbers in acts:
        found = files(folder)
        match act:
            case "ask":
                prompt = [1, *(60 + i for i, size in enumerate(numbers) for _ in range(size))]
            case "go on" if session.tokens:
                prompt = [*session.tokens, 3, *numbers]
            case "damage" if found:
                path = found[numbers[0] % len(found)]
                data = bytearray(path.read_bytes())
                data[numbers[1] % len(data)] ^= 1
                path.write_bytes(bytes(data))
            case "lose" if found:
                found[numbers[0] % len(found)].unlink()
            case "restart":
                session = new(target, folder, quantized=caches)
        if act in ("ask", "go on"):
            expected = new(target, None, quantized=caches).complete(prompt, request)
            assert tokens_of(answer(session, prompt, request)) == tokens_of(list(expected))


def test_whatever_is_kept_is_what_reading_gives(targets, folder):
    """Of prompts that share blocks, in two orders, with caches that become quantized at two
    places."""
    first, *others = (DOCUMENT[i * ROWS : (i + 1) * ROWS] for i in range(4))
    turned = [first, *others[::-1], others[0]]
    for caches in (None, QUANTIZED, replace(QUANTIZED, start=QUANTIZED.start - ROWS)):
        for blocks in ([first, *others, first], turned):
            prompt = [token for block in blocks for token in block] + [9]
            for _ in range(2):
                session = new(targets("llama wide"), folder, quantized=caches)
                answer(session, prompt, replace(GREEDY, max_tokens=2))
    assert len(files(folder)) == 3 * 2 * 5 - 3  # they begin alike


# What is kept, and when


def test_only_prompts_that_say_so_are_kept(targets, folder):
    """And no shorter ones than two blocks."""
    target = targets("llama")
    answer(new(target, folder), DOCUMENT)
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    given = answer(new(target, folder), DOCUMENT, replace(GREEDY, keep_as=()))
    assert reused_of(given) == 0
    answer(new(target, folder), DOCUMENT[::-1], replace(GREEDY, private=True))
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before
    for length, count in ((ROWS + 9, 0), (2 * ROWS, 0), (2 * ROWS + 1, 2)):
        short = folder.with_name(f"of {length}")
        answer(new(target, short), DOCUMENT[:length])
        assert (length, len(files(short))) == (length, count)


def test_a_session_beside_it_writes_nothing_nor_one_whose_document_is_deleted(targets, folder):
    session = new(targets("llama"), folder)
    list(session.complete(DOCUMENT, GREEDY))
    assert not session.another().keep()
    assert not session.copy().keep()
    assert session.keep()
    late = new(targets("llama"), folder)
    list(late.complete(DOCUMENT[::-1], GREEDY))
    forget(folder, A)
    assert not session.keep()
    assert not late.keep()
    assert files(folder) == []


def test_a_disk_that_fills_up(targets, folder):
    """MLX writes the file, and says so in an error of its own."""
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    session = new(targets("llama"), folder)
    list(session.complete(DOCUMENT, GREEDY))
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
        assert not session.keep()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    assert session.unkept is Unkept.NO_ROOM
    assert held_bytes(folder) == 0
    assert not list(folder.glob("*/.*"))


@pytest.mark.parametrize("patience", mostly_slow([0, 1, 2, 3, 5, 7], quick=[2, 7]))
def test_cancelling_anywhere(targets, folder, patience):
    target = targets("llama")
    expected = tokens_of(answer(new(target, folder), DOCUMENT))
    for session in (new(target, folder), new(target, folder.with_name("other"))):
        asked = iter(range(1000))
        events = list(
            session.complete(
                DOCUMENT, GREEDY, cancelled=lambda asked=asked: next(asked) >= patience
            )
        )
        assert done_of(events).reason == "cancelled"
        check(session)
        while session.keep():
            check(session)
        assert tokens_of(answer(session, DOCUMENT)) == expected


KINDS = ["model", "early-exit", "head", "cascade", "trees", "suffix"]


@pytest.mark.quick(1)
@pytest.mark.parametrize("kind", mostly_slow(KINDS, quick=["model", "head", "trees"]))
def test_every_drafter_drafts_behind_it(targets, folder, kind):
    target = targets("llama")
    answer(new(target, folder), DOCUMENT)
    expected = tokens_of(answer(new(target, None), [*DOCUMENT, 9]))
    for prompt in ([*DOCUMENT, 9], [*DOCUMENT[: 5 * ROWS], DOCUMENT[5 * ROWS]]):
        session = use(new(target, folder), kind, "llama")
        given = answer(session, prompt)
        assert reused_of(given) == 5 * ROWS
        check_caches(session)
        if prompt[-1] == 9:
            assert tokens_of(given) == expected
            assert done_of(given).stats.proposed > 0 or kind == "suffix"


# Where one row is not read as many are


def in_blocks(session):
    """The session, which reads as on a GPU, where a chunk's rows depend on how many they are."""
    session.decoder._timed, session.decoder._prefill_rows = False, ROWS
    return session


def test_only_blocks_that_were_read_whole_are_kept(targets, folder):
    session = in_blocks(new(targets("llama"), folder))
    short = DOCUMENT[: ROWS // 2]
    answer(session, short, replace(GREEDY, keep_as=(), max_tokens=1))
    events = answer(session, DOCUMENT)
    assert reused_of(events) == 0, "a block that was begun is read again"
    assert len(files(folder)) == 5


def test_states_are_marked_where_a_block_ends(targets, folder):
    session = in_blocks(new(targets("qwen3_5"), folder))
    answer(session, DOCUMENT[: ROWS // 2], replace(GREEDY, keep_as=(), max_tokens=1))
    expected = answer(session, DOCUMENT)
    assert len(files(folder)) == 5 + 1
    given = answer(in_blocks(new(targets("qwen3_5"), folder)), DOCUMENT)
    assert (reused_of(given), tokens_of(given)) == (5 * ROWS, tokens_of(expected))


@pytest.mark.quick(1)
@pytest.mark.parametrize("architecture", mostly_slow(["llama", *STATES], quick=["llama", "lfm2"]))
def test_instructions_are_kept_and_what_is_said_is_not(targets, folder, architecture):
    target, long = targets(architecture), "Where? And when, and how? " * 4
    ask(new(target, folder), long)
    states = architecture != "llama"
    assert len(files(folder)) == BEGINNING + states
    for turns in (("Why?",), (long,), ("Why?", "Who knows.", long)):
        given = ask(new(target, folder), *turns)
        assert reused_of(given) == BEGINNING * ROWS
        assert tokens_of(given) == tokens_of(ask(new(target, None), *turns))
    assert len(files(folder)) == BEGINNING + states


def test_a_document_is_kept_before_its_question_by_states(targets, folder):
    """Of a chat about documents states are kept where the next question begins, not at its end."""
    text, target = "It was a dark and stormy night, and the rain fell. " * 3, targets("qwen3_5")

    def about(session, question):
        prompt = chat([ChatMessage("user", text + question, attached=len(text))])
        return answer(session, (), GREEDY, said=prompt)

    about(new(target, folder), "Who is there, and what did they see that night? " * 2)
    given = about(new(target, folder), "Why?")
    assert reused_of(given) == (len(text) + len("?")) // ROWS * ROWS
    assert tokens_of(given) == tokens_of(about(new(target, None), "Why?"))


# With pictures

SHORT = replace(GREEDY, max_tokens=5)
TOLD = ChatMessage("assistant", "It is it.")
STORY = "It was a dark and stormy night; the rain fell in torrents."


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
    return replace(said(STORY + question, *shown), attached=len(STORY))


def told(session, *messages):
    """The events of an answer, as `kept.answer` checks them."""
    return answer(session, (), SHORT, said=chat(messages))


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
        expected = list(new(target, None).answer(messages, SHORT))
        given = told(new(target, folder), *messages)
        assert tokens_of(given) == tokens_of(expected)
        reused.append(reused_of(given))
    assert reused[0] == 0
    assert reused[1] >= 2 * ROWS
    assert reused[4:] == [0, 0]


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("device", ["CPU", "GPU"], indirect=True)
def test_blocks_that_end_in_a_picture_are_read_up_to_it(targets, folder, tokenizer, pictures):
    """As those after them were deleted."""
    target = seeing(targets("llama"), tokenizer, "llama")
    message = about("Why?", pictures[0])
    expected = tokens_of(told(new(target, folder), message))
    kept = sorted(files(folder), key=lambda path: path.stat().st_mtime_ns)
    (rows,) = pictures_in(new(target, folder).encode(chat([message])))
    assert rows.start < ROWS < rows.stop
    for path in kept:
        path.unlink()
        assert tokens_of(told(new(target, folder), message)) == expected
