"""What is left out, and that what is needed is not."""

import pytest
from configuration import read_configuration
from prune import left_out


def test_the_last_line_that_fits_decides():
    is_left_out = left_out("/kept/*\n!/kept/this.py\n*.pyi\ntests/\n")
    assert is_left_out("kept/that.py")
    assert is_left_out("kept/deep/down.py")
    assert not is_left_out("kept/this.py")
    assert is_left_out("other/a.pyi")
    assert is_left_out("other/tests/test_a.py")
    assert not is_left_out("other/tests.py")
    assert not is_left_out("deep/kept/that.py")


def test_a_folder_of_what_was_left_out_is_asked_back():
    is_left_out = left_out("/Qt/*\n!/Qt/lib/Core.framework/\n")
    assert is_left_out("Qt/lib/Quick.framework/Quick")
    assert not is_left_out("Qt/lib/Core.framework/Versions/A/Core")


@pytest.mark.parametrize(
    "name",
    [
        "PySide6/QtWidgets.abi3.so",
        "PySide6/Qt/lib/QtGui.framework/Versions/A/QtGui",
        "PySide6/Qt/plugins/platforms/libqcocoa.dylib",
        "PySide6/Qt/plugins/platforms/libqoffscreen.so",
        "hf_xet-1.8.0.dist-info/METADATA",
        "mlx/lib/mlx.metallib",
        "mlx_lm/models/llama.py",
        "transformers/models/auto/modeling_auto.py",
        "transformers/models/llama/tokenization_llama.py",
        "transformers/generation/configuration_utils.py",
    ],
)
def test_packages_keep(name: str):
    assert not left_out(read_configuration().prune.packages)(name)


@pytest.mark.parametrize(
    "name",
    [
        "PySide6/QtQml.abi3.so",
        "PySide6/Qt/lib/QtQuick.framework/Versions/A/QtQuick",
        "PySide6/Qt/plugins/platforms/libqminimal.dylib",
        "PySide6/scripts/deploy.py",
        "mlx/include/mlx/mlx.h",
        "numpy/_core/tests/test_api.py",
        "transformers/models/llama/modeling_llama.py",
        "transformers/trainer.py",
        "anything/__pycache__/a.cpython-313.pyc",
    ],
)
def test_packages_lose(name: str):
    assert left_out(read_configuration().prune.packages)(name)


def test_our_own_programs_for_making_things_stay_at_home():
    prune = read_configuration().prune
    assert left_out(prune.own)("resources/icons/make_icon.py")
    assert not left_out(prune.own)("resources/drafters/smollm2-135m/head.safetensors")
    without = left_out(prune.own + prune.own_without_starter)
    assert without("resources/drafters/smollm2-135m/head.safetensors")
    assert not left_out(prune.own)("app/__main__.py")
