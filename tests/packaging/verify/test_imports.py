"""What is imported and missing is found; what may be missing is not."""

import pytest

from bundle.assemble import PACKAGES
from verify.imports import imports

APP = PACKAGES / "app"


def _bundle(folder, files):
    """A bundle of these modules, by their paths below the packages."""
    for name, source in {"app/__init__.py": "", **files}.items():
        path = folder / PACKAGES / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    return folder


def _found(folder, files):
    return {finding.message for finding in imports(_bundle(folder, files))}


@pytest.mark.parametrize(
    "source",
    [
        "import gone.deep",
        "from gone.deep import thing",
        "def late():\n    from gone.deep import thing",
        "class Late:\n    async def go(self):\n        import gone.deep",
        "with open('a'):\n    import gone.deep",
        "try:\n    import gone.deep\nfinally:\n    pass",
        "try:\n    pass\nexcept ImportError:\n    pass\nelse:\n    import gone.deep",
    ],
)
def test_what_we_import_must_be_there(tmp_path, source):
    files = {"app/a.py": source, "gone/__init__.py": ""}
    assert _found(tmp_path, files) == {"imports gone.deep, which is not in the bundle"}
    assert _found(tmp_path, files | {"gone/deep.py": "thing = 1"}) == set()


@pytest.mark.parametrize(
    "source",
    [
        "try:\n    import gone\nexcept ImportError:\n    gone = None",
        "try:\n    import gone\nexcept (OSError, ModuleNotFoundError):\n    gone = None",
        "try:\n    import gone\nexcept:\n    gone = None",
        "with suppress(ImportError):\n    import gone",
        "if TYPE_CHECKING:\n    import gone",
        "import sys, os.path, collections.abc",
        "from collections.abc import Iterator",
    ],
)
def test_what_may_be_missing(tmp_path, source):
    files = {"app/a.py": source, "os.py": "", "collections/__init__.py": ""}
    assert _found(tmp_path, files) == set()


def test_what_others_import_is_followed(tmp_path):
    files = {
        "app/a.py": "from tool.part import thing",
        "tool/__init__.py": "from .version import number",
        "tool/part.py": "from . import inner\nfrom ..tool import other\ndef f():\n    import gone",
        "tool/never_imported.py": "import gone",
    }
    assert _found(tmp_path, files) == {
        "imports tool.version, which is not in the bundle",
        "imports tool.inner, which is not in the bundle",
        "imports tool.other, which is not in the bundle",
    }
    more = {"tool/version.py": "number = 1", "tool/inner.py": "", "tool/other/a.py": ""}
    assert _found(tmp_path, files | more) == set()


@pytest.mark.parametrize(
    "init", ["thing = 1", "from .a import *", "def __getattr__(name): ...", "globals().update({})"]
)
def test_a_package_may_make_its_names_itself(tmp_path, init):
    files = {"app/a.py": "from tool import thing", "tool/__init__.py": init, "tool/a.py": ""}
    assert _found(tmp_path, files) == set()


def test_a_library_is_a_module(tmp_path):
    files = {"app/a.py": "import fast.core", "fast/core.cpython-313-darwin.so": "\0"}
    assert _found(tmp_path, files) == set()


def test_what_cannot_be_read(tmp_path):
    (message,) = _found(tmp_path, {"app/a.py": "import"})
    assert message.startswith("cannot be read: ")
