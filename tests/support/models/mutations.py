"""Files that were right, broken in the ways that files are broken, and by people who mean it.

`python -m tests.support.models.mutations SUBJECT COUNT` reads COUNT of them in a process that may
not run anything, look anything up, write elsewhere or take much memory; it prints what came of
them.
"""

import copy
import json
import os
import resource
import sys
import tempfile
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from models.errors import Problem
from tests.support.models.mutation_subjects import SUBJECTS

MEMORY_BYTES = 2 << 30  # more than the process has to begin with
CPU_SECONDS = 1800
LONGEST_MESSAGE = 700

_NUMBERS = [
    *(0, 1, -1, 2**7, 2**31 - 1, 2**31, 2**32, 2**53, 2**63 - 1, 2**63, 2**64, 10**30, 10**400)
]
_DEEP = "a place for many brackets"
_DEPTHS = [20, 900, 3000, 9900, 100_000]
_KEYS = ["auto_map", "model_file", "text_config", "quantization", "layer_types", "model_type",
    "num_experts", "kv_lora_rank", "sliding_window", "__metadata__", "merges", "added_tokens",
    "__class__", "", "\ud800"]  # fmt: skip

odd_values = st.one_of(
    st.sampled_from(_NUMBERS),
    st.sampled_from([None, True, False, 0.5, -0.0, 1e308, float("inf"), float("nan")]),
    st.sampled_from(["", "\ud800", "\x00", "\x1b[31m", "../..", "x" * 5000, "__import__('os')"]),
    st.sampled_from([[], {}, [[]], [None], {"": 0}, [0] * 1000, {"model_type": "llama"}]),
    st.sampled_from(_DEPTHS).map(lambda depth: f"{_DEEP} {depth}"),
    st.integers(-10, 10**6),
    st.text(max_size=8),
)
_place = st.integers(0, 1 << 20)

# What happens to bytes: each takes a position, and keeps to the part that is to be hit.
_byte_edits = st.one_of(
    st.tuples(st.just("flip"), _place, st.integers(0, 7)),
    st.tuples(st.just("set"), _place, st.integers(0, 255)),
    st.tuples(st.just("cut"), _place, st.just(0)),
    st.tuples(st.just("drop"), _place, st.integers(1, 40)),
    st.tuples(st.just("copy"), _place, _place),
    st.tuples(st.just("number"), _place, st.sampled_from(_NUMBERS[:-2])),
    st.tuples(st.just("insert"), _place, st.binary(min_size=1, max_size=12)),
    st.tuples(st.just("insert"), _place, st.sampled_from([b"\xff\xfe", b"\xc3", b"[" * 200_000])),
)
# What happens to a value in JSON: where, by turns at each level, and what.
_json_edits = st.tuples(
    st.lists(_place, max_size=5),
    st.sampled_from(["replace", "replace", "replace", "delete", "wrap", "rename", "add"]),
    st.sampled_from(_KEYS),
    odd_values,
)


def mutated_bytes(data, edits, *, within):
    """`data` after `edits` to its first `within` bytes."""
    for kind, place, value in edits:
        at = place % max(1, min(within, len(data)))
        match kind:
            case "flip":
                data = data[:at] + bytes([data[at] ^ 1 << value]) + data[at + 1 :] if data else data
            case "set":
                data = data[:at] + bytes([value]) + data[at + 1 :]
            case "cut":
                data = data[:at]
            case "drop":
                data = data[:at] + data[at + value :]
            case "copy":
                start = value % max(1, len(data))
                data = data[:at] + data[start : start + 64] + data[at:]
            case "number":
                size = 8 if at % 2 else 4
                packed = (value % (1 << 8 * size)).to_bytes(size, "little")
                data = data[:at] + packed + data[at + size :]
            case _:
                data = data[:at] + value + data[at:]
    return data


def mutated_json(value, edits):
    """JSON of `value` after `edits`; some of it is no JSON in earnest."""
    root = {"": json.loads(json.dumps(value))}
    for turns, kind, name, new in edits:
        holder = root
        key = ""
        for turn in turns:
            inner = holder[key]
            if not isinstance(inner, dict | list) or not inner:
                break
            holder, key = (
                inner,
                (list(inner)[turn % len(inner)] if isinstance(inner, dict) else turn % len(inner)),
            )
        _edit(holder, key, kind, name, copy.deepcopy(new))
    text = json.dumps(root.get(""))
    for depth in _DEPTHS:
        text = text.replace(json.dumps(f"{_DEEP} {depth}"), "[" * depth + "]" * depth)
    return text


def _edit(holder, key, kind, name, new):
    if kind == "delete":
        del holder[key]
        if "" not in holder and isinstance(holder, dict):
            holder.setdefault("", None)
    elif kind == "wrap":
        holder[key] = [holder[key]]
    elif kind == "add" and isinstance(holder[key], dict):
        holder[key][name] = new
    elif kind == "rename" and isinstance(holder, dict) and key != "":
        holder[name] = holder.pop(key)
    else:
        holder[key] = new


@st.composite
def mutations(draw, subject):
    """Draw a broken version of the subject's file."""
    original = draw(st.sampled_from(subject.originals))
    if original.document is None or draw(st.integers(0, 2)) == 0:
        edits = draw(st.lists(_byte_edits, min_size=1, max_size=4))
        return mutated_bytes(original.data, edits, within=original.header_bytes)
    text = mutated_json(original.document, draw(st.lists(_json_edits, min_size=1, max_size=4)))
    return original.rebuilt(text.encode(errors="surrogatepass"))


def read_mutations(subject, count, folder, *, guard=None):
    """Read `count` broken files; how many came to what. Raises what is not a Problem."""
    came = Counter()

    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(data=mutations(subject))
    def read_one(data):
        came[_read(subject, data, folder, guard)] += 1

    for original in subject.originals:  # right ones are read, and load what is loaded late
        assert _read(subject, original.data, folder, None) == "reading"
    read_one()
    return came


def _read(subject, data, folder, guard):
    with tempfile.TemporaryDirectory(dir=folder) as place:
        file = subject.prepare(Path(place), data)
        try:
            if guard is None:
                subject.read(file)
            else:
                with guard.armed(Path(place)):
                    subject.read(file)
        except Problem as problem:
            _judge(problem, file)
            return "problem"
    return "reading"


def _judge(problem, file):
    """It can be shown to the user: a line, not too long, with something to do about it."""
    assert problem.message.isprintable(), ascii(problem.message)
    assert len(problem.message) < LONGEST_MESSAGE + len(str(file)), problem.message
    assert problem.remedy


class Guard:
    """Refuses, while armed, all that reading a file has no business with."""

    _NEVER = ("os.system", "os.exec", "os.posix_spawn", "os.fork", "subprocess.", "socket.",
        "exec", "compile", "import", "pickle.", "marshal.", "ctypes.", "shutil.unpack",
        "urllib.", "webbrowser.")  # fmt: skip

    def __init__(self):
        self._place = None
        sys.addaudithook(self._look)

    @contextmanager
    def armed(self, place):
        self._place = str(place.resolve())
        try:
            yield
        finally:
            self._place = None

    def _look(self, event, arguments):
        if self._place is None:
            return
        if event.startswith(self._NEVER):
            raise AssertionError(f"reading a file led to {event} {arguments!r:.200}")
        if event == "open" and isinstance(arguments[0], str | bytes):
            path, flags = os.path.realpath(os.fsdecode(arguments[0])), arguments[2]
            if flags & (os.O_WRONLY | os.O_RDWR) and not path.startswith(self._place):
                raise AssertionError(f"reading a file led to writing {path}")


def main():
    subject, count = SUBJECTS[sys.argv[1]], int(sys.argv[2])
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY_BYTES, taken + MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(read_mutations(subject, count, Path(folder), guard=Guard())))


if __name__ == "__main__":
    main()
