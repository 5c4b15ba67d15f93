"""A fingerprint is of the weights: not of how they are spread over files, nor of their folder."""

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save_file

from models.model_folder import ModelFolder

SAMPLE_BYTES = 4096


def tensors():
    """A large one, a small one, a number, and one with nothing in it."""
    random = numpy.random.default_rng(0)
    return {
        "layers.0.weight": random.standard_normal((40, 64)).astype(numpy.float32),
        "layers.1.weight": random.standard_normal((3, 5)).astype(numpy.float16),
        "scale": numpy.array(0.5, dtype=numpy.float32),
        "empty": numpy.zeros((0, 4), dtype=numpy.float32),
    }


def folder_of(place, *files):
    place.mkdir(parents=True)
    for number, held in enumerate(files):
        save_file(held, place / f"model-{number:05}.safetensors", metadata={"file": str(number)})
    return place


def of(place, *files):
    return ModelFolder(folder_of(place, *files)).fingerprint


@pytest.fixture
def known(tmp_path):
    return of(tmp_path / "known", tensors())


@given(places=st.lists(st.integers(0, 3), min_size=4, max_size=4))
def test_the_same_over_any_files(tmp_path_factory, places):
    files = [{}, {}, {}, {}]
    for place, (name, tensor) in zip(places, tensors().items(), strict=True):
        files[place][name] = tensor
    folder = tmp_path_factory.mktemp("spread")
    spread = of(folder / "a", *filter(None, files))
    assert spread == of(folder / "b", tensors())


def test_what_loaders_leave_alone_does_not_count(tmp_path, known):
    folder = folder_of(tmp_path / "model", tensors())
    save_file({"other": numpy.ones(3)}, folder / "consolidated.safetensors")
    (folder / "._model.safetensors").write_bytes(b"what another system's file manager leaves")
    (folder / "config.json").write_text("{}")
    assert ModelFolder(folder).fingerprint == known


@pytest.mark.parametrize("name", ["layers.0.weight", "layers.1.weight", "scale"])
def test_another_byte_is_another_model(tmp_path, known, name):
    held = tensors()[name]
    for place in {0, 1, held.nbytes // 2, held.nbytes - 1}:
        data = bytearray(held.tobytes())
        data[place] ^= 1
        changed = numpy.frombuffer(bytes(data), dtype=held.dtype).reshape(held.shape)
        print_of_changed = of(tmp_path / f"{place}", tensors() | {name: changed})
        assert (print_of_changed == known) == (place >= SAMPLE_BYTES), place


def test_another_name_shape_or_type_is_another_model(tmp_path, known):
    held = tensors()
    first = held["layers.0.weight"]
    renamed = {name.replace("1", "2"): tensor for name, tensor in held.items()}
    swapped = held | {"layers.0.weight": held["layers.1.weight"], "layers.1.weight": first}
    others = [
        renamed,
        swapped,
        held | {"layers.0.weight": first.reshape(64, 40)},
        held | {"layers.0.weight": first.view(numpy.int32)},
        held | {"empty": numpy.zeros((0, 5), dtype=numpy.float32)},
        held | {"one more": first},
        {name: tensor for name, tensor in held.items() if name != "empty"},
    ]
    prints = [of(tmp_path / f"{number}", other) for number, other in enumerate(others)]
    assert len({known, *prints}) == len(others) + 1
