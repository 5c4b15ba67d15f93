"""What was read of a document and kept on disk: answers and caches are as if it were read anew."""

import copy
import json
import resource
import signal
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mlx_lm.models.cache import ArraysCache

from engine.conversation.kept_blocks import KeptBlocks, forget, held_bytes
from engine.conversation.kept_prefixes import Unkept
from engine.conversation.loading import LoadedModel, load
from engine.conversation.session import Session
from engine.core.cache import QuantizedCaches
from engine.core.decoder import Decoder
from engine.events import Prefill
from engine.request import ChatMessage, chat
from models.model_folder import inspect
from tests.support.engine.kept import (
    BEGINNING,
    DOCUMENT,
    GREEDY,
    INSTRUCTED,
    QUANTIZED,
    ROWS,
    STATES,
    A,
    answer,
    ask,
    check,
    files,
    new,
)
from tests.support.engine.sessions import check_caches, done_of, reused_of, tokens_of, use
from tests.support.mostly_slow import examples, mostly_slow

pytestmark = pytest.mark.usefixtures("on_the_cpu")

# Exactly what reading it anew would give


def test_caches_that_are_quantized_behind_the_last_block_are_not_kept(targets, folder):
    """Their blocks were read with other keys and values than are there in the end."""
    session = new(targets("llama wide"), folder, quantized=replace(QUANTIZED, start=5 * ROWS))
    answer(session, [*DOCUMENT, 1])
    assert files(folder) == []


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
    state.write_bytes(state.read_bytes()[:-1] + b"?")
    given = answer(new(target, folder), DOCUMENT)
    assert (reused_of(given), tokens_of(given)) == (0, expected)
    assert reused_of(answer(new(target, folder), DOCUMENT)) == 5 * ROWS, "it is kept again"


def test_caches_of_another_kind_are_not_kept_and_it_is_said(targets, folder, monkeypatch):
    class Other(ArraysCache):
        """Holds more than its arrays, for all that is known."""

    target = targets("qwen3_5")
    caches = target.model.make_cache()
    others = [Other(len(each.cache)) if isinstance(each, ArraysCache) else each for each in caches]
    monkeypatch.setattr(target.model, "make_cache", lambda: copy.deepcopy(others), raising=False)
    session = new(target, folder)
    list(session.complete(DOCUMENT, GREEDY))
    assert not session.keep()
    assert session.unkept is Unkept.LAYERS
    assert files(folder) == []


def test_what_several_macs_read_together_is_not_kept_and_it_is_said(targets, folder):
    class Grouped(Decoder):
        group = "pipeline 2+2 over ring"

    answer(new(targets("llama"), folder), DOCUMENT)
    count = len(files(folder))
    session = new(replace(targets("llama"), decoder=Grouped), folder)
    assert reused_of(answer(session, DOCUMENT)) == 0
    assert session.unkept is Unkept.ON_SEVERAL_MACS
    assert len(files(folder)) == count


def test_weights_without_files_are_not_told_from_others(targets, folder):
    target = targets("llama")
    lost = replace(target, folder=replace(target.folder, path=Path("gone")))
    session = new(lost, folder)
    answer(session, DOCUMENT)
    assert session.unkept is Unkept.NO_FILES
    assert files(folder) == []


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


@dataclass
class Chats:
    """Prompts of many conversations, in sessions that come and go; each is checked."""

    target: LoadedModel
    folder: Path
    quantized: QuantizedCaches | None = None
    session: Session = field(init=False)

    def __post_init__(self):
        self.restart()

    def restart(self):
        self.session = new(self.target, self.folder, quantized=self.quantized)

    def ask(self, prompt):
        request = replace(GREEDY, max_tokens=3)
        expected = new(self.target, None, quantized=self.quantized)
        assert tokens_of(answer(self.session, prompt, request)) == tokens_of(
            list(expected.complete(prompt, request))
        )


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
    chats = Chats(targets("llama wide"), folder, QUANTIZED if quantized else None)
    prompt = [1]
    for act, numbers in acts:
        found = files(folder)
        match act:
            case "ask":
                prompt = [1]
                for i, size in enumerate(numbers):
                    prompt += [60 + i] * size
                chats.ask(prompt)
            case "go on":
                prompt = [*chats.session._tokens, 3, *numbers] if chats.session._tokens else prompt
                chats.ask(prompt)
            case "damage" if found:
                path = found[numbers[0] % len(found)]
                data = bytearray(path.read_bytes())
                data[numbers[1] % len(data)] ^= 1
                path.write_bytes(bytes(data))
            case "lose" if found:
                found[numbers[0] % len(found)].unlink()
            case "restart":
                chats.restart()


def conversation(target, folder):
    """Prompts that share blocks, in two orders, with caches that become quantized at two places."""
    first, *others = (DOCUMENT[i * ROWS : (i + 1) * ROWS] for i in range(4))
    turned = [first, *others[::-1], others[0]]
    for caches in (None, QUANTIZED, replace(QUANTIZED, start=QUANTIZED.start - ROWS)):
        for blocks in ([first, *others, first], turned):
            prompt = [token for block in blocks for token in block] + [9]
            for _ in range(2):
                session = new(target, folder, quantized=caches)
                list(session.complete(prompt, replace(GREEDY, max_tokens=2)))
                check(session)
                while session.keep():
                    pass


def test_whatever_is_kept_is_what_reading_gives(targets, folder):
    conversation(targets("llama wide"), folder)
    assert len(files(folder)) == 3 * 2 * 5 - 3  # they begin alike


# What is kept, and when


def test_only_prompts_that_say_so_are_kept(targets, folder, monkeypatch):
    answer(new(targets("llama"), folder), DOCUMENT)
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    given = answer(new(targets("llama"), folder), DOCUMENT, replace(GREEDY, keep_as=()))
    assert reused_of(given) == 0
    answer(new(targets("llama"), folder), DOCUMENT[::-1], replace(GREEDY, private=True))
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


@pytest.mark.parametrize(("length", "count"), [(ROWS + 9, 0), (2 * ROWS, 0), (2 * ROWS + 1, 2)])
def test_little_is_not_kept(targets, folder, length, count):
    answer(new(targets("llama"), folder), DOCUMENT[:length])
    assert len(files(folder)) == count


def test_a_turn_that_goes_on_finishes_what_was_to_be_kept_and_adds_nothing(targets, folder):
    session = new(targets("llama"), folder)
    list(session.complete(DOCUMENT, GREEDY))
    assert session.keep()
    again = [*session._tokens, *[5] * 4 * ROWS]
    events = list(session.complete(again, GREEDY))
    assert reused_of(events) > 5 * ROWS
    while session.keep():
        pass
    assert len(files(folder)) == 5
    check(session)


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


def test_a_limit_keeps_the_beginning(targets, folder):
    target = targets("llama")
    answer(new(target, folder), DOCUMENT)
    size = held_bytes(folder)
    for path in files(folder):
        path.unlink()
    session = Session(target, kept=KeptBlocks(folder, most_bytes=size * 3 // 5 + 1000))
    answer(session, DOCUMENT)
    assert 2 <= len(files(folder)) <= 3
    given = answer(new(target, folder), DOCUMENT)
    assert reused_of(given) == ROWS * len(files(folder)) or len(files(folder)) == 5
    tight = Session(target, kept=KeptBlocks(folder, most_bytes=size // 5))
    answer(tight, [91, *DOCUMENT])
    assert tight.unkept is Unkept.NO_ROOM


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


def test_the_prompt_is_told_as_it_is_found(targets, folder):
    target = targets("llama")
    answer(new(target, folder), DOCUMENT)
    session = new(target, folder)
    found = [
        (each.processed, session.length)
        for each in session.complete(DOCUMENT, GREEDY)
        if isinstance(each, Prefill) and each.processed == each.reused
    ]
    assert [processed for processed, _ in found] == [i * ROWS for i in range(6)]
    assert found[-1][1] == 5 * ROWS, "its seconds are those of all that was found"


# Drafters


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


@pytest.fixture
def in_blocks(monkeypatch):
    """A session that reads as on a GPU, where a chunk's rows depend on how many they are."""

    def like_metal(session):
        session.decoder._timed, session.decoder._prefill_rows = False, ROWS
        return session

    return like_metal


def test_only_blocks_that_were_read_whole_are_kept(targets, folder, in_blocks):
    session = in_blocks(new(targets("llama"), folder))
    short = DOCUMENT[: ROWS // 2]
    answer(session, short, replace(GREEDY, keep_as=(), max_tokens=1))
    events = answer(session, DOCUMENT)
    assert reused_of(events) == 0, "a block that was begun is read again"
    assert len(files(folder)) == 5

    other = in_blocks(new(targets("llama"), folder.with_name("other")))
    for _ in other.decoder.prefill(DOCUMENT[: ROWS // 2]):
        pass
    for _ in other.decoder.prefill(DOCUMENT):
        pass
    assert other.decoder.as_afresh(80) == 0
    other.decoder.rewind(0)
    for _ in other.decoder.prefill(DOCUMENT):
        pass
    assert other.decoder.as_afresh(80) == 80
    assert other.decoder.as_afresh(70) == 64
    other.decoder.rewind(40)
    assert other.decoder.as_afresh(80) == 32
    assert other.decoder.copy()[0]._in_blocks == 32
    assert other.decoder.another()._in_blocks == 0


def test_states_are_marked_where_a_block_ends(targets, folder, in_blocks):
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
    for said in (("Why?",), (long,), ("Why?", "Who knows.", long)):
        given = ask(new(target, folder), *said)
        assert reused_of(given) == BEGINNING * ROWS
        assert tokens_of(given) == tokens_of(ask(new(target, None), *said))
    assert len(files(folder)) == BEGINNING + states


def test_tools_are_instructions_too(targets, folder):
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    ask(new(targets("llama"), folder), "Why?", tools=json.dumps([tool]))
    assert len(files(folder)) > 10
    given = ask(new(targets("llama"), folder), "And where?", tools=json.dumps([tool]))
    assert reused_of(given) == len(files(folder)) * ROWS


def test_instructions_go_with_no_document(targets, folder):
    ask(new(targets("llama"), folder), "Why?")
    answer(new(targets("llama"), folder), [90, *DOCUMENT])
    assert len(files(folder)) == BEGINNING + 5
    forget(folder, A)
    assert len(files(folder)) == BEGINNING


def test_a_text_or_tokens_have_no_instructions(targets, folder):
    answer(new(targets("llama"), folder), DOCUMENT, INSTRUCTED)
    assert files(folder) == []


def test_a_document_is_kept_behind_its_question_by_states(targets, folder):
    """Of a chat about documents states are kept where the next question begins, not at its end."""
    text, target = "It was a dark and stormy night, and the rain fell. " * 3, targets("qwen3_5")

    def about(session, question):
        prompt = chat([ChatMessage("user", text + question, attached=len(text))])
        return answer(session, (), GREEDY, said=prompt)

    about(new(target, folder), "Who is there, and what did they see that night? " * 2)
    given = about(new(target, folder), "Why?")
    assert reused_of(given) == (len(text) + len("?")) // ROWS * ROWS
    assert tokens_of(given) == tokens_of(about(new(target, None), "Why?"))
