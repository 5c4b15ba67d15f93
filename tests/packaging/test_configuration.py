"""What the files say, and what they exclude, which is nothing that is needed."""

import zipfile
from typing import get_args

import pytest
from pathspec import GitIgnoreSpec

from bundle.resolve import read_lock
from configuration import PACKAGING, Exclusion, Part, Prune, excluded, read_configuration


def test_a_configuration_with_a_line_too_many(tmp_path):
    path = tmp_path / "slipstream.toml"
    text = (PACKAGING / "slipstream.toml").read_text()
    path.write_text(text.replace("[budget]", "[budget]\nwishes = 1\n"))
    with pytest.raises(TypeError, match="wishes"):
        read_configuration(path)


def test_the_last_line_that_fits_decides():
    is_excluded = excluded(["/kept/*", "!/kept/this.py", "*.pyi", "tests/"])
    assert is_excluded("kept/that.py")
    assert is_excluded("kept/deep/down.py")
    assert not is_excluded("kept/this.py")
    assert is_excluded("other/a.pyi")
    assert is_excluded("other/tests/test_a.py")
    assert not is_excluded("other/tests.py")
    assert not is_excluded("deep/kept/that.py")


def test_a_folder_of_what_was_left_out_is_asked_back():
    is_excluded = excluded(["/Qt/*", "!/Qt/lib/Core.framework/"])
    assert is_excluded("Qt/lib/Quick.framework/Quick")
    assert not is_excluded("Qt/lib/Core.framework/Versions/A/Core")


@pytest.mark.parametrize(
    "name",
    [
        "PySide6/QtWidgets.abi3.so",
        "PySide6/Qt/lib/QtGui.framework/Versions/A/QtGui",
        "PySide6/Qt/plugins/platforms/libqcocoa.dylib",
        "PySide6/Qt/plugins/platforms/libqoffscreen.so",
        "google/protobuf/message.py",  # of tokenizers that are SentencePiece's
        "huggingface_hub/utils/_http.py",
        "llguidance-1.9.1.dist-info/METADATA",
        "llguidance/_lib.abi3.so",
        "mlx/include/mlx/backend/metal/kernels/quantized.h",
        "mlx/lib/mlx.metallib",
        "mlx_lm/models/llama.py",
        "mlx_lm/tool_parsers/qwen3_coder.py",
        "numpy/linalg/_linalg.py",
        "pygments/lexers/python.py",
        "pypdfium2-5.15.2.dist-info/licenses/LICENSES/BSD-3-Clause.txt",
        "pypdfium2_raw/libpdfium.dylib",
        "transformers/models/auto/modeling_auto.py",
        "transformers/models/llama/tokenization_llama.py",
        "safetensors-0.8.0.dist-info/METADATA",
        "transformers/generation/configuration_utils.py",
        "transformers/integrations/tiktoken.py",
        "transformers/models/whisper/english_normalizer.py",
        "transformers/utils/hub.py",
        "transformers/video_utils.py",
        "uvicorn/middleware/wsgi.py",
        "uvicorn/protocols/http/h11_impl.py",
    ],
)
def test_packages_keep(name):
    assert not read_configuration().prune.excluded("packages")(name)


@pytest.mark.parametrize(
    "name",
    [
        "PySide6/QtQml.abi3.so",
        "PySide6/Qt/lib/QtQuick.framework/Versions/A/QtQuick",
        "PySide6/Qt/plugins/imageformats/libqjpeg.dylib",
        "PySide6/Qt/plugins/platforms/libqminimal.dylib",
        "PySide6/scripts/deploy.py",
        "filelock-4.2.11.dist-info/sboms/filelock.cdx.json",
        "huggingface_hub/inference/_client.py",
        "mlx/include/mlx/mlx.h",
        "mlx_lm/tuner/trainer.py",
        "numpy/_core/tests/test_api.py",
        "pydantic/v1/main.py",
        "numpy/_core/_simd.cpython-313-darwin.so",
        "numpy/random/_generator.cpython-313-darwin.so",
        "pypdfium2_cli/render.py",
        "safetensors/_safetensors_rust.abi3.so",
        "transformers/modeling_utils.py",
        "transformers/models/whisper/generation_whisper.py",
        "transformers/models/llama/modeling_llama.py",
        "transformers/trainer.py",
        "uvicorn/protocols/http/auto_zttp_impl.py",
        "uvicorn/protocols/websockets/wsproto_impl.py",
        "anything/__pycache__/a.cpython-313.pyc",
    ],
)
def test_packages_lose(name):
    assert read_configuration().prune.excluded("packages")(name)


def test_our_own_programs_for_making_things_stay_at_home():
    prune = read_configuration().prune
    always = prune.excluded("own")
    assert always("resources/icons/make_icon.py")
    assert always("engine/bench/results/starter.json")
    assert not always("resources/drafters/smollm2-135m/head.safetensors")
    assert not always("app/__main__.py")
    assert not always("engine/metal/few_rows.metal")
    without = prune.excluded("own", "own_without_starter")
    assert without("resources/drafters/smollm2-135m/head.safetensors")


def test_every_exclusion_has_a_part_and_a_reason():
    exclusions = read_configuration().prune.exclusions
    assert {one.of for one in exclusions} == set(get_args(Part.__value__))
    for one in exclusions:
        assert one.why.endswith("."), one
    for part in get_args(Part.__value__):
        lines = read_configuration().prune.lines(part)
        assert len(lines) == len(set(lines))


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ('of = "own_for_mac"', 'of = "own_for_windows"', "own_for_windows"),
        ('why = "It leads MLX to OpenBLAS, on Linux alone."', 'why = " "', "without a reason"),
        ('paths = ["/resources/blas/"]', "paths = []", "without a reason or a path"),
    ],
)
def test_an_exclusion_without_one(tmp_path, old, new, match):
    path = tmp_path / "slipstream.toml"
    text = (PACKAGING / "slipstream.toml").read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(ValueError, match=match):
        read_configuration(path)


def test_the_lines_of_a_part_keep_their_order():
    table = (
        Exclusion("packages", "Because.", ("/a/*", "!/a/b")),
        Exclusion("own", "Because.", ("/c",)),
        Exclusion("packages", "Because.", ("/a/b",)),
    )
    prune = Prune(table)
    assert prune.lines("packages") == ("/a/*", "!/a/b", "/a/b")
    assert prune.lines("own", "packages") == ("/a/*", "!/a/b", "/c", "/a/b")
    assert prune.excluded("packages")("a/b")


@pytest.mark.slow
def test_every_line_of_the_table_leaves_something_out_or_asks_it_back():
    """In the wheels of both systems, where `make app` and `make twin` have fetched them."""
    locks = [PACKAGING / "locks" / f"{name}.txt" for name in ("macos-arm64", "linux-x86_64")]
    wheels = {wheel.path for lock in locks for wheel in read_lock(lock)}
    if not all(path.is_file() for path in wheels):
        pytest.skip("make app twin first: they fetch what is needed")
    names = {name for path in wheels for name in zipfile.ZipFile(path).namelist()}
    for line in read_configuration().prune.lines("packages"):
        matches = GitIgnoreSpec.from_lines([line.removeprefix("!")]).match_file
        assert any(map(matches, names)), f"nothing is like {line}"
