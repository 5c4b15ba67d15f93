"""Of a target only the bytes of its MTP module are fetched; it becomes a folder of its own."""

import json
import shutil
from functools import cache
from itertools import product, zip_longest
from types import SimpleNamespace

import numpy
import pytest
from safetensors.numpy import load_file, save

from models.drafters.folders import describe_drafter, module_folder
from models.drafters.mtp import prefixes as mtp_prefixes
from models.errors import Problem
from models.hub.fetch_module import fetch_module
from models.hub.stopping import Stopped
from models.records import MODULE_NAME
from models.safetensors_file import SafetensorsWriter, TensorLayout
from tests.support.models.drafter_configs import drafter_layout
from tests.support.models.hub_models import Client
from tests.support.mostly_slow import mostly_slow

NAME = "Qwen/Qwen3.6-27B"
INDEX = "model.safetensors.index.json"
LAYOUTS = ("mtp-huggingface-inside", "mtp-deepseek-inside", "mtp-mimo-inside")


@pytest.fixture
def client(server, tmp_path):
    return Client(server, tmp_path, name=NAME)


@cache
def tensors_of(layout):
    """Random ones with the layout's names and shapes, and much that is not the module's."""
    generator = numpy.random.default_rng(1)
    shapes = {name: each.shape for name, each in drafter_layout(layout).tensors.items()}
    shapes |= {f"model.layers.{layer}.mlp.big.weight": (500, 700) for layer in range(3)}
    return {name: generator.random(shape).astype(numpy.float16) for name, shape in shapes.items()}


@cache
def published(layout, *, shards=3):
    """The target as it is published: its tensors spread over some files, with their index."""
    tensors = tensors_of(layout)
    names = [f"model-{number:05d}-of-{shards:05d}.safetensors" for number in range(1, shards + 1)]
    places = {name: names[number % shards] for number, name in enumerate(tensors)}
    files = {
        file: save({name: tensors[name] for name in tensors if places[name] == file})
        for file in names
    }
    config = json.dumps(drafter_layout(layout).config).encode()
    if shards == 1:
        return {"config.json": config, "model.safetensors": files[names[0]]}
    return files | {"config.json": config, INDEX: json.dumps({"weight_map": places}).encode()}


def fetch(client, **more):
    settings = {"hub": client.hub, "home": client.home, "wait_seconds": 0.0}
    return fetch_module(client.describe(), **settings | more)


def is_right(folder, layout):
    """Whether it holds the module's tensors, number by number, and nothing else."""
    tensors = tensors_of(layout)
    prefixes = mtp_prefixes(drafter_layout(layout).config, tensors)
    own = {name: array for name, array in tensors.items() if name.startswith(prefixes)}
    found = load_file(folder / MODULE_NAME)
    return found.keys() == own.keys() and all((found[name] == own[name]).all() for name in own)


def without_module(tensors):
    return {name: array for name, array in tensors.items() if not name.startswith("mtp.")}


@pytest.mark.parametrize(
    ("layout", "shards"),
    mostly_slow(product(LAYOUTS, [1, 3]), quick=[(LAYOUTS[0], 3), (LAYOUTS[1], 1)]),
)
def test_only_the_modules_bytes_are_fetched(client, server, layout, shards):
    server.repositories[NAME] = published(layout, shards=shards)
    folder = fetch(client)
    assert folder == module_folder(NAME, home=client.home)
    assert is_right(folder, layout)
    assert {path.name for path in folder.iterdir()} == {"config.json", MODULE_NAME}
    found = describe_drafter(folder)
    expected = drafter_layout(layout).expected["inside"]
    assert (found.kind, found.description.packaging) == ("mtp", expected["packaging"])
    own_bytes = sum(each.size_bytes for each in found.layouts.values())
    assert server.sent_bytes < own_bytes + 20_000  # headers, config and index
    assert sum(map(len, server.repositories[NAME].values())) > 1_500_000
    assert list((client.home / "drafters").iterdir()) == [folder]


def test_what_lies_between_the_modules_tensors_is_not_fetched(client, server, tmp_path):
    tensors = tensors_of(LAYOUTS[0])
    own = [name for name in tensors if name.startswith("mtp.")]
    others = [name for name in tensors if not name.startswith("mtp.")]
    between = [name for pair in zip_longest(own, others) for name in pair if name]
    path = tmp_path / "model.safetensors"
    with SafetensorsWriter(
        path, {name: TensorLayout("F16", tensors[name].shape) for name in between}
    ) as writer:
        for name in between:
            writer.write(name, tensors[name].tobytes())
    config = published(LAYOUTS[0])["config.json"]
    server.repositories[NAME] = {"config.json": config, path.name: path.read_bytes()}
    folder = fetch(client)
    assert is_right(folder, LAYOUTS[0])
    assert server.sent_bytes < sum(tensors[name].nbytes for name in own) + 20_000


def test_one_that_is_there_is_not_fetched_again(client, server):
    files = published(LAYOUTS[0])
    places = json.loads(files[INDEX])["weight_map"]
    old = {name: file.replace("-of-00003", "-of-00009") for name, file in places.items()}
    files = files | {INDEX: json.dumps({"weight_map": old}).encode()}  # which is passed over
    server.repositories[NAME] = files
    folder = fetch(client)
    asked = len(server.asked)
    assert fetch(client) == folder
    assert [one.path for one in server.asked[asked:]] == [f"/api/models/{NAME}"]
    files["README.md"] = b"# Another commit\n"
    sent = server.sent_bytes
    with pytest.raises(Problem, match="exists already") as refused:
        fetch(client)
    assert server.sent_bytes == sent
    assert f"models remove {folder.name}" in refused.value.remedy
    assert is_right(folder, LAYOUTS[0])


def test_repositories_with_one_last_name_have_modules_of_their_own(client, server, tmp_path):
    other = Client(server, tmp_path, name=f"another/{NAME.partition('/')[2]}")
    server.repositories |= {NAME: published(LAYOUTS[0]), other.name: published(LAYOUTS[1])}
    folder, another = fetch(client), fetch(other)
    assert is_right(folder, LAYOUTS[0])
    assert is_right(another, LAYOUTS[1])
    shutil.rmtree(folder)
    assert fetch(other) == another
    assert fetch(client) == folder


def test_a_file_beside_the_model_is_fetched_whole(client, server):
    files, kinds = published(LAYOUTS[0], shards=1), {"BF16": numpy.float16, "U32": numpy.uint32}
    module = {
        name: numpy.ones(each.shape, dtype=kinds[each.dtype])
        for name, each in drafter_layout("mtp-mlx-4bit").tensors.items()
    }
    config = json.loads(files["config.json"])
    config |= {"quantization": {"bits": 4, "group_size": 32}}
    trunk = {"model.safetensors": save(without_module(tensors_of(LAYOUTS[0])))}
    server.repositories[NAME] = (
        files | trunk | {MODULE_NAME: save(module), "config.json": json.dumps(config).encode()}
    )
    folder = fetch(client)
    assert describe_drafter(folder).kind == "mtp"
    assert load_file(folder / MODULE_NAME).keys() == module.keys()
    assert not server.requests("model.safetensors")


def test_what_was_received_before_a_stop_is_kept(client, server, monkeypatch):
    server.repositories[NAME] = published(LAYOUTS[0])
    told = []

    def enough():
        if server.held.is_set():
            server.release.set()
        return server.held.is_set()

    server.hold_after = 60_000
    with pytest.raises(Stopped):
        fetch(client, progress=told.append, cancelled=enough)
    assert not module_folder(NAME, home=client.home).exists()
    server.settle()
    before = server.sent_bytes
    server.hold_after = None
    free = SimpleNamespace(free=2 * told[-1].total_bytes - 1)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: free)
    folder = fetch(client, progress=told.append)
    assert is_right(folder, LAYOUTS[0])
    own_bytes = sum(each.size_bytes for each in describe_drafter(folder).layouts.values())
    assert server.sent_bytes - before < own_bytes  # headers included
    assert told[-1].done_bytes == told[-1].total_bytes == own_bytes


def test_what_cannot_be_fetched_says_why(client, server, subtests):
    files = published(LAYOUTS[0])
    trunk = save(without_module(tensors_of(LAYOUTS[0])))
    fp8 = {"quantization_config": {"quant_method": "fp8", "fmt": "e4m3"}}
    config = json.dumps(json.loads(files["config.json"]) | fp8).encode()
    damaged = {name: b"\xff" * 9_000 for name in files if "model-" in name}
    for changed, match in [
        ({"config.json": files["config.json"], "model.safetensors": trunk}, "no MTP module"),
        (files | {"config.json": config}, r"quantized .*fp8"),
        (files | damaged, "damaged"),
        (files | {INDEX: b"[]"}, "index"),
    ]:
        server.repositories[NAME] = changed
        with subtests.test(match=match):
            with pytest.raises(Problem, match=match):
                fetch(client)
            assert not (client.home / "drafters").exists()
            assert server.sent_bytes < 400_000
    server.repositories[NAME], server.ranges = files, False
    with pytest.raises(Problem, match="does not send parts"):
        fetch(client)
