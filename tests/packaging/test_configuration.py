"""What the files say, and what they exclude, which is nothing that is needed."""

from pathlib import Path

import pytest

from configuration import PACKAGING, excluded, read_configuration


def test_a_configuration_with_a_line_too_many(tmp_path: Path):
    path = tmp_path / "slipstream.toml"
    text = (PACKAGING / "slipstream.toml").read_text()
    path.write_text(text.replace("[budget]", "[budget]\nwishes = 1\n"))
    with pytest.raises(TypeError, match="wishes"):
        read_configuration(path)


def test_the_last_line_that_fits_decides():
    is_excluded = excluded("/kept/*\n!/kept/this.py\n*.pyi\ntests/\n")
    assert is_excluded("kept/that.py")
    assert is_excluded("kept/deep/down.py")
    assert not is_excluded("kept/this.py")
    assert is_excluded("other/a.pyi")
    assert is_excluded("other/tests/test_a.py")
    assert not is_excluded("other/tests.py")
    assert not is_excluded("deep/kept/that.py")


def test_a_folder_of_what_was_left_out_is_asked_back():
    is_excluded = excluded("/Qt/*\n!/Qt/lib/Core.framework/\n")
    assert is_excluded("Qt/lib/Quick.framework/Quick")
    assert not is_excluded("Qt/lib/Core.framework/Versions/A/Core")


@pytest.mark.parametrize(
    "name",
    [
        "PySide6/QtWidgets.abi3.so",
        "PySide6/Qt/lib/QtGui.framework/Versions/A/QtGui",
        "PySide6/Qt/plugins/platforms/libqcocoa.dylib",
        "PySide6/Qt/plugins/platforms/libqoffscreen.so",
        "llguidance-1.9.1.dist-info/METADATA",
        "llguidance/_lib.abi3.so",
        "mlx/lib/mlx.metallib",
        "mlx_lm/models/llama.py",
        "pypdfium2-5.15.2.dist-info/licenses/LICENSES/BSD-3-Clause.txt",
        "pypdfium2_raw/libpdfium.dylib",
        "transformers/models/auto/modeling_auto.py",
        "transformers/models/llama/tokenization_llama.py",
        "transformers/generation/configuration_utils.py",
        "uvicorn/middleware/wsgi.py",
        "uvicorn/protocols/http/h11_impl.py",
    ],
)
def test_packages_keep(name: str):
    assert not excluded(read_configuration().prune.packages)(name)


@pytest.mark.parametrize(
    "name",
    [
        "PySide6/QtQml.abi3.so",
        "PySide6/Qt/lib/QtQuick.framework/Versions/A/QtQuick",
        "PySide6/Qt/plugins/platforms/libqminimal.dylib",
        "PySide6/scripts/deploy.py",
        "mlx/include/mlx/mlx.h",
        "numpy/_core/tests/test_api.py",
        "pydantic/v1/main.py",
        "pypdfium2_cli/render.py",
        "transformers/models/llama/modeling_llama.py",
        "transformers/trainer.py",
        "uvicorn/protocols/http/auto_zttp_impl.py",
        "uvicorn/protocols/websockets/wsproto_impl.py",
        "anything/__pycache__/a.cpython-313.pyc",
    ],
)
def test_packages_lose(name: str):
    assert excluded(read_configuration().prune.packages)(name)


def test_our_own_programs_for_making_things_stay_at_home():
    prune = read_configuration().prune
    assert excluded(prune.own)("resources/icons/make_icon.py")
    assert not excluded(prune.own)("resources/drafters/smollm2-135m/head.safetensors")
    without = excluded(prune.own + prune.own_without_starter)
    assert without("resources/drafters/smollm2-135m/head.safetensors")
    assert not excluded(prune.own)("app/__main__.py")
