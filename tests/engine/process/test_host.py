"""The child process, for real, and its parts where a process would only be in the way."""

import ctypes
import fcntl
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import termios
import time
from array import array
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from unittest import mock

import mlx.core as mx
import pytest

import engine.core.judging
from engine import device, earlier_answers
from engine.cli.line_child import LineChild
from engine.conversation.default_sampling import BALANCED_SMALL
from engine.conversation.kept_blocks import KeptBlocks, kept_blocks_folder
from engine.conversation.kept_prefixes import Unkept
from engine.conversation.pair_costs import Remark
from engine.conversation.session import Session
from engine.core.cache import QuantizedCaches
from engine.core.decoder import Decoder
from engine.events import Done, Draft, Failed, Prefill, Text, Verdict
from engine.exactness import ANY_ROWS, Exactness
from engine.pipes import claim_pipes
from engine.process import host, protocol
from engine.process.host import (
    CommandQueue,
    Disconnected,
    Host,
    ResponseLines,
    quantized_caches,
    read_lines,
)
from engine.process.protocol import (
    COMMANDS,
    RESPONSES,
    Cancel,
    Count,
    Counted,
    Generate,
    Hurry,
    Keep,
    Kept,
    Load,
    Loaded,
    Loading,
    Memory,
    Quit,
    SetDrafter,
    Unload,
    Unloaded,
    parse_command,
)
from engine.request import Prompt, Request, Sampling, asked, chat
from models.errors import Problem
from models.model_folder import ModelFolder
from models.records import Fit
from tests.support.engine import tiny
from tests.support.engine.hosted import all_at_once, hosted, of, queued
from tests.support.engine.pictures import picture, said
from tests.support.engine.seeing_folders import write_seeing
from tests.support.engine.tiny import write_folder

WITHOUT_END = Sampling(logit_bias={256: -1000.0})
QUESTION = asked("Tell me a story, and a long one.")
ARCHITECTURES = Path(__file__).parents[2] / "data" / "architectures.json"
LONG = 3000  # tokens, several seconds' worth
ALIKE = Exactness(ANY_ROWS, "this device computes every row alike")  # on the CPU


TIMEOUT_SECONDS = 120  # for hangs only
COMMAND = 'exec "$0" -m engine.process.host 2> "$1"'


class Child(LineChild):
    """A child process, and a line to it. `log`: its standard error."""

    def __init__(self, log, environment=None):
        self.log = log
        variables = {"SLIPSTREAM_HOME": str(log.parent / "home")} | (environment or {})
        with mock.patch.dict(os.environ, variables):
            command = ("sh", "-c", COMMAND, sys.executable, str(log))
            super().__init__(command, longest_bytes=RESPONSES.longest_bytes)
        self.process = self._process
        self.stdin, self.stdout = self.process.stdin, self.process.stdout

    def send(self, *commands):
        self.write(b"".join(map(COMMANDS.to_line, commands)))

    def next(self):
        line = self.line(TIMEOUT_SECONDS)
        assert line is not None, "the child says nothing"
        return RESPONSES.read(line)

    def until(self, *kinds):
        """All responses up to the first of one of these kinds."""
        responses = [self.next()]
        while not isinstance(responses[-1], kinds):
            responses.append(self.next())
        return responses

    def ask(self, command):
        self.send(command)
        return self.until(Done, Failed, Loaded)

    def end(self, seconds=TIMEOUT_SECONDS):
        """Wait until it has ended; its exit status."""
        return self.process.wait(seconds)

    def close(self):
        self.process.kill()
        self.process.wait()
        self.stdin.close()
        self.stdout.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "llama"
    write_folder("llama", path, layers=2)
    return path


# Standard streams in another encoding must not matter.
ENVIRONMENT = {"PYTHONIOENCODING": "latin-1", "PYTHONUTF8": "0", "LC_ALL": "C"}


@pytest.fixture(scope="module")
def child(folder, tmp_path_factory):
    """One that has the model loaded, for all tests that leave it so. `imported`: before that."""
    log = tmp_path_factory.mktemp("log") / "log"
    child = Child(log, ENVIRONMENT | {"PYTHONPROFILEIMPORTTIME": "1"})
    try:
        child.ready = child.next()
        child.imported = {line.rpartition("|")[2].strip() for line in log.read_text().splitlines()}
        assert isinstance(child.ask(Load("load", str(folder)))[-1], Loaded)
        yield child
    finally:
        child.close()


@pytest.fixture
def fresh(tmp_path):
    """A child process that a test may end."""
    child = Child(tmp_path / "log", ENVIRONMENT)
    yield child
    child.close()


NOT_YET = (
    "app", "engine.cli", "engine.server", "engine.documents", "engine.tools", "engine.distil",
    "torch", "rich", "typer", "mcp", "uvicorn", "starlette", "openpyxl", "mammoth", "pypdfium2",
    "PySide6", "transformers.models.auto.modeling_auto", "transformers.generation.utils",
)  # fmt: skip


def test_it_greets_and_begins_without_what_it_does_not_need(child):
    ready = child.ready
    assert ready.protocol == protocol.PROTOCOL
    assert all((ready.python, ready.mlx, ready.mlx_lm, ready.device))
    assert "mlx_lm" in child.imported
    assert child.imported & {*NOT_YET} == set()
    child.process.send_signal(signal.SIGINT)  # the terminal cannot interrupt it
    assert isinstance(child.ask(generate("g1"))[-1], Done)


def generate(id, *, max_tokens=16, sampling=WITHOUT_END):
    return Generate(id, "chat", QUESTION, Request(sampling=sampling, max_tokens=max_tokens))


def written(responses):
    return "".join(text.delta for text in of(Text, responses))


def test_a_race_says_what_lies_behind_a_difference(folder, monkeypatch):
    """Here a fault, which judges drafts by the rows after theirs."""
    compare = engine.core.judging._compare
    race = replace(generate("g"), race=True)
    load = Load("1", str(folder), drafter="early-exit", draft_length="3")
    same = hosted([load, race])[-1]
    assert same.fork is None
    monkeypatch.setattr(
        engine.core.judging, "_compare", lambda rows, *a: compare(mx.roll(rows, 1, axis=0), *a)
    )
    other = hosted([load, race])
    done = other[-1]
    assert not done.fork.near_tie
    plain, drafted = (
        [e.next.id for e in other if isinstance(e, Verdict) and e.generation == name and e.next]
        for name in (protocol.rival_of("g"), "g")
    )
    assert plain[done.fork.at] == done.fork.plain
    assert done.fork.written in drafted


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Where nothing is known yet."""
    monkeypatch.setenv("SLIPSTREAM_HOME", str(tmp_path))
    return tmp_path


def test_the_drafter_can_be_changed(child, folder):
    plain = written(child.ask(generate("g1")))
    for drafter, length in (("lookup", "3"), (str(folder), None), ("early-exit", "2")):
        before, after = child.ask(SetDrafter("d", drafter, length))
        assert isinstance(before, Loading)
        assert (after.drafter, after.draft_length) == (drafter, length or "3")
        responses = child.ask(generate("g2"))
        assert written(responses) == plain
        assert responses[-1].stats.proposed > 0 or drafter == "lookup"
    for bad in (SetDrafter("d", "nonsense"), SetDrafter("d", "none", "17")):
        assert child.ask(bad)[-1].generation == "d"
    after = child.ask(SetDrafter("d", draft_length="auto"))[-1]
    assert (after.drafter, after.draft_length) == ("early-exit", "auto")


def test_a_drafter_whose_costs_cannot_be_measured_is_not_used(folder):
    calibrated = mock.Mock(side_effect=[[Remark.SLOW_BLAS], RuntimeError, []])
    commands = [Load("1", str(folder), "early-exit:1", "2"), SetDrafter("2", "none", "4")]
    with mock.patch.object(Session, "calibrate", calibrated):
        told = hosted([*commands, generate("g"), SetDrafter("3", draft_length="auto")])
    assert [each.generation for each in of(Failed, told)] == ["2"]
    assert max((len(each.tokens) for each in of(Draft, told)), default=0) == 2
    assert [each.remark for each in of(Loaded, told)] == [Remark.SLOW_BLAS.value, ""]


def test_another_drafter_may_leave_room_for_one_answer_at_a_time(folder, monkeypatch):
    tight = Fit("", "", 60, 0, 60, 0, 0, 0, 60, 60, True, "")  # a byte a token
    wide = replace(tight, available_bytes=6000)
    monkeypatch.setattr(host, "require_room", mock.Mock(side_effect=[wide, tight]))
    load = Load("1", str(folder))
    responses = all_at_once(load, SetDrafter("2", "lookup"), generate("a"), generate("b"))
    kinds = [(type(each), getattr(each, "generation", "")) for each in responses]
    assert kinds.index((Done, "a")) < kinds.index((Prefill, "b"))


def test_a_conversation_can_be_given_less_memory_and_a_sampling(folder):
    memory, wide = Memory(context=64), Memory(cache_bits=8)
    load = Load("1", str(folder), memory=memory)
    warm = replace(load, id="2", sampling=Sampling(temperature=0.9))
    told = hosted([load, generate("g"), warm, replace(load, id="3", memory=wide)])
    loaded, other = of(Loaded, told)
    assert (loaded.context_length, loaded.memory) == (64, memory)
    assert loaded.sampling != other.sampling == warm.sampling
    assert of(Done, told)
    (failed,) = of(Failed, told)  # its heads are too narrow to be quantized
    assert failed.generation == "3"


@pytest.mark.quick(3)
@pytest.mark.parametrize(
    ("family", "head_dim", "possible"),
    [
        ("llama", 64, True),
        ("llama", 16, False),  # narrower than a group of numbers that share a scale
        ("mamba2", 64, False),
        ("gemma3_text", 64, True),  # its windows stay as they are
        ("gpt_oss", 64, False),  # attends to a sink, which no quantized kernel does
        ("gemma2", 64, False),  # its attention is its own
    ],
)
def test_caches_are_quantized_where_a_trial_succeeds(tmp_path, family, head_dim, possible):
    sizes = json.loads(ARCHITECTURES.read_text())["configurations"][family]
    if family != "mamba2":
        heads = sizes["num_attention_heads"]
        sizes |= {"head_dim": head_dim, "hidden_size": heads * head_dim}
    vocabulary = tiny.byte_tokenizer(tmp_path)
    model = tiny.build(family, sizes=sizes, vocabulary=vocabulary)
    tiny.save(model, tiny.config_of(family, sizes=sizes, vocabulary=vocabulary), tmp_path)
    folder = ModelFolder(tmp_path)
    assert quantized_caches(folder, Memory()) is None
    with nullcontext() if possible else pytest.raises(Problem):
        assert quantized_caches(folder, Memory(cache_bits=4)) == QuantizedCaches(bits=4)


def test_reasoning_can_be_ended(child, folder, tmp_path):
    other = shutil.copytree(folder, tmp_path / "reasons")
    config = json.loads((other / "tokenizer_config.json").read_text())
    config["chat_template"] += "{% if add_generation_prompt %}<think>{# </think> #}{% endif %}"
    (other / "tokenizer_config.json").write_text(json.dumps(config))
    child.ask(Load("load", str(other)))
    child.send(generate("g1", max_tokens=LONG))
    child.until(Verdict)
    child.send(Hurry("g1"))
    while not (verdict := child.until(Verdict)[-1]).forced:
        pass
    child.send(Cancel("g1"))
    assert "".join(token.text for token in verdict.forced) == "</think>\n\n"
    assert child.until(Done)[-1].stats.forced == len("</think>\n\n")
    child.ask(Load("load", str(folder)))


def test_generations_run_side_by_side(child, folder):
    alone = written(child.ask(generate("g0", max_tokens=60)))
    child.send(generate("g1", max_tokens=LONG))
    child.until(Verdict)
    child.send(generate("g2", max_tokens=60), Count("c", QUESTION))
    responses = child.until(Done)
    assert [(one.id, one.tokens) for one in of(Counted, responses)] == [("c", 34)]
    assert responses[-1].generation == "g2"
    assert written(r for r in of(Text, responses) if r.generation == "g2") == alone
    assert any(verdict.generation == "g1" for verdict in of(Verdict, responses))
    child.send(Unload("u"), Cancel("g1"))
    done, _ = of(Done | Unloaded, child.until(Unloaded))
    assert done.reason == "cancelled", "what is loaded changes once nothing runs"
    assert done.stats.committed < LONG
    assert isinstance(child.ask(Load("load", str(folder)))[-1], Loaded)


WRONG = {  # what is answered to, and says what
    "too long": (b"x" * 10_000_000, "", "over 8,388,608 bytes"),
    "a field missing": (b'{"command": "generate", "id": "g"}', "g", "conversation"),
    "no model": (Load("l", "/nowhere"), "l", "was not found"),
    "no prompt": (Generate("g", "c", Prompt()), "g", "empty"),
    "an empty stop": (Generate("g", "c", QUESTION, Request(stops=("",))), "g", "stop string"),
}


def test_what_is_wrong_has_one_answer(child):
    offenders = {}
    for name, (line, id, words) in WRONG.items():
        child.write((line if isinstance(line, bytes) else COMMANDS.to_json(line).encode()) + b"\n")
        failed = child.next()
        assert isinstance(failed, Failed), name
        if failed.generation != id or words not in failed.message or not failed.remedy:
            offenders[name] = failed
        assert isinstance(child.ask(generate("after", max_tokens=1))[-1], Done), name
    assert offenders == {}


def test_load_and_unload(folder):
    path = str(folder)
    too_early = Load("2", path, "none", "many"), Load("2", path, "nonsense", "4")
    commands = [generate("g1"), Load("1", path, "lookup", "4"), *too_early, generate("g2")]
    commands += [Load("3", path, "early-exit:99"), generate("g3"), Load("4", path), Unload("5")]
    kinds = (Done, Failed, Loading, Loaded, Unloaded)
    failed, loading, loaded, *rest = (each for each in hosted(commands) if isinstance(each, kinds))
    assert failed == Failed("g1", "No model is loaded.", "Load one first.", "request")
    assert loading == Loading("1", path, "lookup", "4", 0.0)
    exact = ALIKE if device.backend() is device.CPU else loaded.exact
    assert loaded == Loaded(
        *("1", path, "lookup", "4", "float32", 4096, 260, "", Memory(), BALANCED_SMALL),
        *(4, exact, protocol.Macs(), (), False, False, False),
        held_bytes=loaded.held_bytes,
    )
    assert loaded.held_bytes > 0
    assert [type(each) for each in rest] == [
        *(Failed, Failed, Done),  # a mistake that shows before loading leaves the model loaded
        *(Loading, Unloaded, Failed, Failed),  # one that shows later does not, and says so
        *(Loading, Loaded, Unloaded),
    ]


ENDS = (
    lambda child: child.stdin.close(),
    lambda child: child.process.terminate(),
    lambda child: child.send(Quit()),
)


@pytest.mark.slow
@pytest.mark.parametrize("end", ENDS, ids=["input", "SIGTERM", "quit"])
def test_it_ends_with_its_input_and_when_it_is_told(end, fresh, folder):
    answers = (generate(id, max_tokens=LONG) for id in ("g1", "g2"))
    fresh.send(Load("1", str(folder), parallel=1), *answers, Unload("2"))
    fresh.until(Verdict)
    end(fresh)
    ends = [fresh.until(Done)[-1] for _ in range(2)]
    assert {end.generation: end.reason for end in ends} == dict.fromkeys(["g1", "g2"], "cancelled")
    assert fresh.line(5.0) == b""
    assert fresh.end() == 0


PIPE_BYTES, LONGEST_LINE = 1 << 16, 1 << 12


def readable(pipe):
    """How many bytes wait in it."""
    count = array("i", [0])
    fcntl.ioctl(pipe.fileno(), termios.FIONREAD, count)
    return count[0]


@pytest.mark.slow
@pytest.mark.parametrize("end", ENDS[::2], ids=["input", "quit"])
def test_it_ends_although_it_is_held_up(end, fresh, folder):
    fresh.send(Load("1", str(folder)), generate("g1", max_tokens=LONG))
    fresh.until(Verdict)
    before, unread = 0, readable(fresh.stdout)
    while unread < PIPE_BYTES - LONGEST_LINE or unread > before:  # until it waits for room
        time.sleep(1.0)
        before, unread = unread, readable(fresh.stdout)
    end(fresh)
    assert fresh.end() == -signal.SIGALRM


def test_it_is_usable_after_a_failed_generation(folder, monkeypatch, capsys):
    error = RuntimeError("[metal::malloc] no memory")
    read, errors = Decoder.read, list[Exception | None]()

    def failing(decoder, tokens):
        if errors and (error := errors.pop(0)):
            for layer in decoder.timeline.layers:
                layer.keys = layer.keys * float("nan")  # as after a pass that broke off
            raise error
        return read(decoder, tokens)

    def commands():
        yield Load("1", str(folder), "early-exit", "2")
        yield generate("g1")
        errors.extend([None, None, None, error])
        yield generate("g2")
        yield generate("g3")

    monkeypatch.setattr(Decoder, "read", failing)
    responses = hosted(commands())
    first, broken, last = (
        [response for response in responses if getattr(response, "generation", "") == id]
        for id in ("g1", "g2", "g3")
    )
    assert any(isinstance(response, Verdict) for response in broken)
    failed = broken[-1]
    assert type(error).__name__ in failed.message
    assert str(error) in failed.message
    assert "Traceback" in capsys.readouterr().err
    assert isinstance(last[-1], Done)
    assert written(last) == written(first)


@pytest.mark.parametrize("waiting", [False, True])
def test_plain_passes_are_measured_after_an_answer_unless_a_command_waits(
    folder, monkeypatch, waiting
):
    responses = []
    send = responses.append
    queue = queued([Unload("2")], send) if waiting else CommandQueue(send)
    commands = [Load("1", str(folder), "early-exit:1", "3"), generate("g"), None]
    monkeypatch.setattr(queue, "take", mock.Mock(side_effect=commands))
    assert queue.waiting == waiting
    Host(queue, send).run()
    done = responses[-1]
    assert done.stats.proposed
    assert bool(done.stats.reference_seconds) != waiting


def test_answers_are_learned_where_that_is_asked_for(home, folder):
    kept = earlier_answers.earlier_answers_folder(home)

    def ask(id, *, learn):
        load_it = Load(f"load {id}", str(folder), "suffix", "4", learn=learn)
        assert isinstance(hosted([load_it, generate(id)])[-1], Done)
        return sorted(kept.glob("*")) if kept.exists() else []

    assert ask("without a folder", learn=True) == []
    assert not kept.exists()
    earlier_answers.begin(kept)
    assert ask("off", learn=False) == []
    assert len(ask("on", learn=True)) == 1


@pytest.mark.usefixtures("on_the_cpu")
def test_a_picture_is_seen_counted_and_missed(tmp_path):
    folder = write_seeing("gemma3", tmp_path / "model")
    shown = picture(tmp_path, 0)
    lost = replace(shown, path=str(tmp_path / "lost.png"), digest="0" * 64)
    request = Request(sampling=Sampling(), max_tokens=4)
    seen, missed = (chat([said("So?", each)]) for each in (shown, lost))
    load = Load("load", str(folder), drafter="lookup", draft_length="2", keep_bytes=0)
    answers = Generate("see", "chat", seen, request), Generate("miss", "chat", missed, request)
    lines = [COMMANDS.to_json(each).encode() for each in (load, Count("count", seen), *answers)]
    assert all(len(line) < 2000 for line in lines)
    told = hosted(map(parse_command, lines))
    assert [each.sees for each in of(Loaded, told)] == [True]
    (counted,) = of(Counted, told)
    *_, read = (each for each in of(Prefill, told) if each.generation == "see")
    assert counted.tokens == read.total > 9
    assert [each.generation for each in of(Done, told)] == ["see"]
    (failed,) = of(Failed, told)
    assert (failed.generation, "missing" in failed.message) == ("miss", True)


def about_a_document(id):
    """Of as many bytes as two blocks have."""
    request = Request(sampling=Sampling(), max_tokens=4, keep_as=("a" * 64,))
    return Generate(id, "chat", asked("A word, and another one. " * 45), request)


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """The files of what is kept."""
    monkeypatch.setenv("SLIPSTREAM_HOME", str(tmp_path))
    return lambda: sorted(kept_blocks_folder().glob("*/*.safetensors"))


def test_documents_are_kept_after_the_answer_where_they_may_be(folder, kept):
    load, seen = Load("1", str(folder)), []
    hosted([replace(load, keep_bytes=0), about_a_document("g")])
    assert not kept()
    with pytest.raises(Problem):
        replace(load, keep_bytes=-1)
    hosted(
        [load, about_a_document("g"), replace(load, id="2"), about_a_document("h")],
        after=lambda response: seen.append((response, len(kept()))),
    )
    dones = [(done.stats.reused_tokens, files) for done, files in seen if isinstance(done, Done)]
    assert dones == [(0, 0), (1024, 2)]


def test_a_command_goes_before_what_is_to_be_kept(folder, kept, monkeypatch):
    waiting = property(lambda _: len(kept()) == 1)
    monkeypatch.setattr(CommandQueue, "waiting", waiting)
    hosted([Load("1", str(folder)), about_a_document("g")])
    assert len(kept()) == 1


def test_what_is_kept_can_be_waited_for(folder, kept, monkeypatch):
    asked = []

    def commands():
        yield Load("1", str(folder))
        yield about_a_document("g")
        asked.append("k")
        yield Keep("k")

    monkeypatch.setattr(CommandQueue, "waiting", property(lambda _: not asked))
    monkeypatch.setattr("engine.conversation.pair_costs.PairCosts.learn", lambda *_, **__: True)
    found = []
    hosted(commands(), after=lambda response: found.append((response, len(kept()))))
    assert found[-2][1] == 0
    assert found[-1] == (Kept("k", (Remark.BUSY_ANSWERING.value,)), 2)


def test_what_goes_wrong_while_it_is_kept_costs_nothing_else(folder, kept, monkeypatch, capsys):
    commands = [Load("1", str(folder)), about_a_document("g"), about_a_document("h")]
    with mock.patch.object(KeptBlocks, "write", side_effect=RuntimeError):
        responses = hosted(commands)
    assert len(of(Done, responses)) == 2
    assert "RuntimeError" in capsys.readouterr().err
    monkeypatch.setattr("engine.core.cache_arrays.states", lambda *_: None)
    told = hosted([*commands, Keep("k")])
    assert not kept()
    assert told[-1] == Kept("k", (Unkept.LAYERS.value,))
    assert capsys.readouterr().err.count(Unkept.LAYERS.value) == 1


def test_prints_do_not_reach_the_protocol(monkeypatch):
    monkeypatch.setattr(sys, "stdout", sys.stdout)
    saved = [os.dup(descriptor) for descriptor in (0, 1)]
    pipes = [os.pipe() for _ in saved]
    try:
        os.write(pipes[0][1], b"command\n")
        os.close(pipes[0][1])
        os.dup2(pipes[0][0], 0)
        os.dup2(pipes[1][1], 1)
        commands, responses = claim_pipes()
        assert sys.stdout is sys.stderr  # whose encoding takes every character
        print("from Python", flush=True)
        os.write(1, b"from C\n")
        library = ctypes.CDLL(None)
        library.puts(b"from C's own buffer")
        library.fflush(None)
        subprocess.run(["echo", "from a program"], check=True)
        ResponseLines(responses).send(Failed("g", "m", "r"))
        assert os.read(0, 100) == b""
        assert commands.read() == b"command\n"
        commands.close()
        responses.close()
    finally:
        for descriptor, copy in enumerate(saved):
            os.dup2(copy, descriptor)
            os.close(copy)
        os.close(pipes[0][0])
        os.close(pipes[1][1])
    with os.fdopen(pipes[1][0], "rb") as pipe:
        assert RESPONSES.read(pipe.read()) == Failed("g", "m", "r")


def test_lines_that_are_too_long_come_broken_off(monkeypatch):
    monkeypatch.setattr(protocol, "LONGEST_LINE_BYTES", 8)
    stream = io.BytesIO(b"longest\ntoo long\nfar too long\nnext\nunended")
    lines = (b"longest\n", b"too long\n", b"far too l", b"next\n", b"unended")
    assert tuple(read_lines(stream)) == lines


def test_lines_from_two_threads_stay_whole():
    read, write = os.pipe()
    with (
        os.fdopen(read, "rb") as source,
        os.fdopen(write, "wb") as sink,
        ThreadPoolExecutor() as threads,
    ):
        output = ResponseLines(sink)
        texts = [Text(str(number), "é" * 20_000) for number in range(2)]
        for text in texts:
            threads.submit(lambda text=text: [output.send(text) for _ in range(20)])
        for _ in range(40):
            assert RESPONSES.read(source.readline()) in texts


def test_a_closed_pipe_is_gone_and_an_inbox_stops_when_nobody_reads():
    read, write = os.pipe()
    os.close(read)
    with open(write, "wb", buffering=0) as sink:
        with pytest.raises(Disconnected):
            ResponseLines(sink).send(Unloaded("1"))
        queue = CommandQueue(ResponseLines(sink).send)
        queue.read(io.BytesIO(b"nonsense\n" + COMMANDS.to_line(Unload("1"))))
    quitting = CommandQueue(pytest.fail)
    quitting.read(io.BytesIO(COMMANDS.to_line(Quit()) + COMMANDS.to_line(Unload("1"))))
    for each in (queue, quitting):  # nothing is taken after quit either
        assert each.stopped
        assert each.take() is None


def test_a_wish_lasts_as_long_as_its_command():
    queue = queued([Unload("1"), Cancel("1"), Hurry("1")], pytest.fail)
    assert (queue.cancelled("1"), queue.hurried("1")) == (True, True)
    queue.note(Unloaded("1"))
    queue.read(io.BytesIO(COMMANDS.to_line(Cancel("1"))))  # too late
    queue.stopped = False
    assert (queue.cancelled("1"), queue.hurried("1")) == (False, False)
