"""Files that were right, broken in the ways that files are broken, and by people who mean it:
catalogs, configs, tokenizers, headers of two formats, answers of a hub.

`python -m tests.support.models.mutations SUBJECT COUNT` reads COUNT of them in a process that may
not run anything, look anything up, write elsewhere or take much memory; it prints what came of
them. What is neither read nor a `Problem` ends it; the last number that it prints says which it
was.
"""

import copy
import json
import math
import os
import random
import re
import resource
import struct
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gguf import GGMLQuantizationType

from models.catalog import load_catalog, offers
from models.errors import Problem
from models.gguf.file import read_gguf
from models.gguf.importing import import_gguf
from models.hub.client import Hub
from models.hub.repository import needed
from models.installed.inventory import is_known, role_of, writes_text
from models.memory.fit import fit
from models.memory.machine import Machine
from models.memory.model_size import weigh
from models.memory.parameters import count_parameters
from models.memory.shape import read_shape
from models.model_folder import ModelFolder, inspect
from models.pairing import candidates, rollback_note
from models.safetensors_file import check_safetensors
from models.starter import STARTER
from models.token_tables import read_table
from tests.support.documents.mutations import edited
from tests.support.models.model_folders import LLAMA, QWEN3_5, model_folder
from tests.support.models.tiny_gguf import KINDS, TinyGguf

MACHINE = Machine("m", 16 << 30, 10_000_000_000, unified=True)
CATALOG = Path(__file__).parents[3] / "resources" / "catalog.json"


@dataclass(frozen=True)
class Original:
    """A file that is right. `document`: the JSON in it, whose text `rebuilt` puts back."""

    data: bytes
    header_bytes: int
    document: Any = None
    rebuilt: Callable[[bytes], bytes] = bytes


@dataclass(frozen=True)
class Subject:
    """A kind of file. `prepare` puts one where `read` looks for it: it raises only Problem."""

    make: Callable[[], list[Original]]
    prepare: Callable[[Path, bytes], Path]
    read: Callable[[Path], object]


def _of_json(*documents):
    texts = [json.dumps(document).encode() for document in documents]
    return [
        Original(text, len(text), document) for text, document in zip(texts, documents, strict=True)
    ]


# Catalogs


def _catalogs():
    whole = json.loads(CATALOG.read_text())
    listed = list(whole["models"].items())
    small = dict(listed[:2] + [entry for entry in listed if entry[0] == STARTER.name])
    return _of_json(whole | {"models": small, "drafters": whole["drafters"][:4]})


def _file(name):
    def prepare(place, data):
        (place / name).write_bytes(data)
        return place / name

    return prepare


def _read_catalog(path):
    found = offers(load_catalog(path), machine=MACHINE)
    assert sum(offer.recommended for offer in found) == 1


# Configs


def _configs():
    known = load_catalog().models.values()
    configs = [dict(model.config) for model in known if model.has_shape]
    kinds = {config["model_type"]: config for config in configs}
    quantized = {"quantization": {"group_size": 64, "bits": 4, "mode": "affine"}}
    return _of_json(LLAMA, QWEN3_5, *(kinds[kind] | quantized for kind in sorted(kinds)))


def _model_with(name):
    def prepare(place, data):
        folder = model_folder(place / "model", weights_bytes=1000)
        (folder / name).write_bytes(data)
        return folder

    return prepare


def _read_config(folder):
    model = ModelFolder(folder)
    config = model.config
    role_of(config), is_known(config), writes_text(config)
    counted = count_parameters(config)
    assert counted is None or 0 < counted.active <= counted.total
    model.check()
    layers = read_shape(config).layers
    assert 0 < len(layers) <= 4096
    assert all(layer.state >= 0 <= layer.key_width for layer in layers)
    rollback_note(config)
    size = weigh(model)
    found = fit(size, size, context=4096, machine=MACHINE)
    assert found.fits == (found.needed_bytes <= found.available_bytes)
    assert found.working_bytes > 0 <= found.largest_context
    assert math.isfinite(found.needed_bytes)
    assert found.reason.isprintable()
    candidates(model, installed=[], machine=MACHINE, home=folder.parent)


# Tokenizers


def _tokenizers():
    model = {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b", ["a", "ab"]]}
    added = [{"id": 3, "content": "<end>", "special": True}]
    unigram = {"type": "Unigram", "vocab": [["a", 0.0], ["b", -1.5]]}
    return _of_json({"model": model, "added_tokens": added}, {"model": unigram})


def _indexes():
    files = {"a.weight": "model.safetensors", "b.weight": "model.safetensors"}
    return _of_json({"metadata": {"total_size": 1000}, "weight_map": files})


# Headers


def _safetensors():
    rest = bytes(200)
    documents = (
        {"model.layers.0.mlp.weight": {"dtype": "F16", "shape": [100], "data_offsets": [0, 200]}},
        {
            "a.weight": {"dtype": "U32", "shape": [5, 4], "data_offsets": [0, 80]},
            "a.scales": {"dtype": "F16", "shape": [5, 8], "data_offsets": [80, 160]},
            "b": {"dtype": "BF16", "shape": [20], "data_offsets": [160, 200]},
            "__metadata__": {"format": "mlx"},
        },
    )

    def rebuilt(text):
        return struct.pack("<Q", len(text)) + text + rest

    texts = [rebuilt(json.dumps(document).encode()) for document in documents]
    return [
        Original(text, len(text) - len(rest), document, rebuilt)
        for text, document in zip(texts, documents, strict=True)
    ]


def _read_weights(folder):
    check_safetensors(folder / "model.safetensors")
    model = ModelFolder(folder)
    _ = model.fingerprint
    weigh(model)


def _gguf():
    originals = []
    with tempfile.TemporaryDirectory() as place:
        for number, architecture in enumerate(KINDS):
            path = Path(place) / f"{architecture}.gguf"
            kind = (GGMLQuantizationType.Q8_0, GGMLQuantizationType.F32)[number % 2]
            TinyGguf(architecture, inner=32, kind=kind).write(path)
            start = min(tensor.offset for tensor in read_gguf(path).tensors.values())
            originals.append(Original(path.read_bytes(), start))
    return originals


def _read_gguf(path):
    read_gguf(path, lists_of_strings=False)
    try:
        import_gguf(path, path.parent / "out")
    except Problem:
        assert list(path.parent.iterdir()) == [path]  # nothing half is left
        raise


# What a hub answers


def _answers():
    file = {"rfilename": "config.json", "size": 9, "blobId": "0" * 40}
    large = {"rfilename": "model.safetensors", "lfs": {"size": 9, "sha256": "2" * 64}}
    facts = {"cardData": {"license": "mit"}, "config": {"model_type": "llama"}, "tags": ["mlx"]}
    facts |= {"gated": "auto", "safetensors": {"parameters": {"BF16": 9}}, "likes": 9}
    answer = {"id": "org/model", "sha": "1" * 40, "siblings": [file, file | large], **facts}
    return _of_json(answer, [answer])


class _Canned(Hub):
    """A hub that always gives the same answer."""

    def __init__(self, answer):
        super().__init__(endpoint="http://127.0.0.1:9", token="hf_x")
        self.answer = answer

    def _patiently(self, ask, name):
        return self.answer


def _read_answer(path):
    hub = _Canned(path.read_bytes())
    if hub.answer.startswith(b"["):
        assert all("\n" not in found.reason + found.licence for found in hub.search("x"))
        return
    repository, folder = hub.describe("org/model"), path.resolve()
    assert all((folder / file.name).resolve().parent == folder for file in needed(repository))
    assert all(type(file.size_bytes) is int and file.size_bytes >= 0 for file in repository.files)
    assert "\n" not in repository.licence


SUBJECTS = {
    "catalog": Subject(_catalogs, _file("catalog.json"), _read_catalog),
    "config": Subject(_configs, _model_with("config.json"), _read_config),
    "tokenizer": Subject(_tokenizers, _model_with("tokenizer.json"), read_table),
    "index": Subject(_indexes, _model_with("model.safetensors.index.json"), inspect),
    "safetensors": Subject(_safetensors, _model_with("model.safetensors"), _read_weights),
    "gguf": Subject(_gguf, _file("model.gguf"), _read_gguf),
    "answer": Subject(_answers, _file("answer.json"), _read_answer),
}


# How they are broken, and read

_NUMBERS = (0, 1, -1, 0.5, 2**7, 2**31 - 1, 2**31, 2**32, 2**53, 2**63, 2**64, 10**30, 10**400)
_DEEP = re.compile(r'"deep (\d+)"')
ODD = (
    *_NUMBERS, None, True, False, -0.0, 1e308, float("inf"), float("nan"), 7, 900_000,
    "", "\ud800", "\x00", "\x1b[31m", "../..", "x" * 5000, "__import__('os')", "llama",
    [], {}, [[]], [None], {"": 0}, [0] * 1000, {"model_type": "llama"},
    *(f"deep {depth}" for depth in (20, 900, 3000, 9900, 100_000)),
)  # fmt: skip
_KEYS = ("auto_map", "model_file", "text_config", "quantization", "layer_types", "model_type",
    "num_experts", "kv_lora_rank", "sliding_window", "__metadata__", "merges", "added_tokens",
    "__class__", "", "\ud800")  # fmt: skip


def _edited_json(value, chance):
    """JSON of `value` with other values in it; some of it is not really JSON."""
    root = {"": copy.deepcopy(value)}
    for _ in range(chance.randint(1, 4)):
        holder, key = root, ""
        while holder[key] and isinstance(holder[key], dict | list) and chance.random() < 0.8:
            holder = holder[key]
            key = chance.choice([*holder] if isinstance(holder, dict) else range(len(holder)))
        match chance.randrange(7):
            case 0 if holder is not root:
                del holder[key]
            case 1:
                holder[key] = [holder[key]]
            case 2 if isinstance(holder, dict) and holder is not root:
                holder[chance.choice(_KEYS)] = holder.pop(key)
            case 3 if isinstance(holder[key], dict):
                holder[key][chance.choice(_KEYS)] = copy.deepcopy(chance.choice(ODD))
            case _:
                holder[key] = copy.deepcopy(chance.choice(ODD))
    text = json.dumps(root[""])
    return _DEEP.sub(lambda deep: "[" * int(deep[1]) + "]" * int(deep[1]), text).encode()


def _broken(original, chance):
    if original.document is not None and chance.random() < 0.7:
        return original.rebuilt(_edited_json(original.document, chance))
    header, rest = original.data[: original.header_bytes], original.data[original.header_bytes :]
    if chance.random() < 0.3:
        packed = (chance.choice(_NUMBERS[4:-1]) % 2**64).to_bytes(8, "little")
        place = chance.randrange(len(header))
        header = header[:place] + packed[: chance.choice((4, 8))] + header[place + 8 :]
    return edited(header, chance) + rest


def read_mutations(name, count, folder, *, guarded=False):
    """Read `count` broken files; how many came to what. Raises what is not a Problem."""
    subject, came = SUBJECTS[name], Counter()
    originals = subject.make()
    for original in originals:  # right ones are read, and load what is loaded late
        assert _read(subject, original.data, folder) == "reading"
    if guarded:
        _guard(folder)
    for number in range(count):
        print(name, number, file=sys.stderr)
        data = _broken(originals[number % len(originals)], random.Random(f"{name} {number}"))
        came[_read(subject, data, folder)] += 1
    return came


def _read(subject, data, folder):
    with tempfile.TemporaryDirectory(dir=folder) as place:
        file = subject.prepare(Path(place), data)
        try:
            subject.read(file)
        except Problem as problem:
            _judge(problem, file)
            return "problem"
    return "reading"


def _judge(problem, file):
    """It can be shown to the user."""
    assert problem.message.isprintable(), ascii(problem.message)
    assert len(problem.message) < _LONGEST_MESSAGE + len(str(file)), problem.message
    assert problem.remedy


def _guard(folder):
    """Refuse all that reading a file has no business with, until `_GUARDED` is empty."""
    place = str(folder.resolve())
    _GUARDED.append(place)

    def look(event, arguments):
        if not _GUARDED:
            return
        if event.startswith(_NEVER):
            raise AssertionError(f"reading a file led to {event} {arguments!r:.200}")
        if event == "open" and isinstance(arguments[0], str | bytes):
            path, flags = os.path.realpath(os.fsdecode(arguments[0])), arguments[2]
            if flags & (os.O_WRONLY | os.O_RDWR) and not path.startswith(place):
                raise AssertionError(f"reading a file led to writing {path}")

    sys.addaudithook(look)
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + _MEMORY_BYTES, taken + _MEMORY_BYTES))


_GUARDED = []
_LONGEST_MESSAGE = 700
_MEMORY_BYTES = 2 << 30  # more than the process has to begin with
_NEVER = ("os.system", "os.exec", "os.posix_spawn", "os.fork", "subprocess.", "socket.", "exec",
    "compile", "import", "pickle.", "marshal.", "ctypes.", "shutil.unpack", "urllib.",
    "webbrowser.")  # fmt: skip


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        print(json.dumps(read_mutations(sys.argv[1], int(sys.argv[2]), Path(made), guarded=True)))
        _GUARDED.clear()  # what Python does at its end is not refused
