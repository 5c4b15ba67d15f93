"""The launcher, with a libpython that tells what it was called with; and what is made for a Mac."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from bundle.assemble import LAUNCHER

STAND_IN = r"""
#include <stdio.h>
#include <stdlib.h>
#include <wchar.h>
static wchar_t name[4096], home[4096];
wchar_t *Py_DecodeLocale(const char *text, size_t *size) {
    wchar_t *wide = calloc(4096, sizeof(wchar_t));
    (void)size;
    mbstowcs(wide, text, 4095);
    return wide;
}
void Py_SetProgramName(const wchar_t *given) { wcsncpy(name, given, 4095); }
void Py_SetPythonHome(const wchar_t *given) { wcsncpy(home, given, 4095); }
int Py_BytesMain(int count, char **arguments) {
    const char *const names[] = {"QT_PLUGIN_PATH", "PYTHONEXECUTABLE", "__PYVENV_LAUNCHER__"};
    int leaked = 0;
    for (int i = 0; i < 3; i++) leaked += getenv(names[i]) != NULL;
    printf("[\"%ls\", \"%ls\", %d", name, home, leaked);
    for (int i = 0; i < count; i++) printf(", \"%s\"", arguments[i]);
    printf("]\n");
    return arguments[count] == NULL ? 7 : 1;
}
"""

needs_compiler = pytest.mark.skipif(
    shutil.which("cc") is None or os.uname().sysname != "Linux", reason="needs cc, on Linux"
)


def _cc(*arguments):
    subprocess.run(["cc", "-w", *map(str, arguments)], check=True)


@pytest.fixture(scope="module")
def contents(tmp_path_factory):
    """A bundle's, with both programs; in a folder that looks like a part of another."""
    folder = tmp_path_factory.mktemp("launcher")
    contents = folder / "Old.app" / "Contents" / "MacOS" / "A B" / "New.app" / "Contents"
    library = contents / "Resources" / "python" / "lib" / "python3.13" / "bases" / "lib"
    library.mkdir(parents=True)
    (contents / "MacOS").mkdir()
    (folder / "python.c").write_text(STAND_IN)
    _cc("-shared", "-fPIC", folder / "python.c", "-o", library / "Python")
    programs = contents / "MacOS"
    _cc(LAUNCHER, "-o", programs / "python3", "-ldl")
    _cc('-DMODULE="app"', LAUNCHER, "-o", programs / "Slipstream", "-ldl")
    return contents


def _run(program, *arguments):
    names = ("QT_PLUGIN_PATH", "PYTHONEXECUTABLE", "__PYVENV_LAUNCHER__")
    environment = dict.fromkeys(names, "/usr/lib")
    return subprocess.run(
        [program, *arguments], env=environment, capture_output=True, text=True, cwd="/"
    )


OPTIONS = ["-I", "-B", "-X", "utf8"]


@needs_compiler
@pytest.mark.parametrize(
    ("program", "module"),
    [("Slipstream", ["-m", "app"]), ("python3", [])],
    ids=["window", "python"],
)
def test_what_python_is_told_also_by_a_link(contents, tmp_path, program, module):
    (tmp_path / "link").symlink_to(contents / "MacOS" / program)
    executable = str(contents / "MacOS" / "python3")
    for place in (contents / "MacOS" / program, tmp_path / "link"):
        ran = _run(place, "-c", "a b", "--x")
        assert ran.returncode == 7, ran.stderr
        name, home, leaked, *arguments = json.loads(ran.stdout)
        assert name == executable
        assert home == str(contents / "Resources" / "python")
        assert leaked == 0
        assert arguments == [executable, *OPTIONS, *module, "-c", "a b", "--x"]


@needs_compiler
def test_a_bundle_that_was_taken_apart_says_so(contents, tmp_path):
    alone = Path(shutil.copy(contents / "MacOS" / "Slipstream", tmp_path))
    app = Path(shutil.copytree(contents, tmp_path / "A.app" / "Contents"))
    (tmp_path / "other.c").write_text("int Py_BytesMain(void) { return 0; }")
    library = app / "Resources" / "python" / "lib" / "python3.13" / "bases" / "lib" / "Python"

    def refused(program):
        ran = _run(program)
        assert ran.returncode == 70
        return ran.stderr

    assert "taken out of its bundle" in refused(alone)
    _cc("-shared", "-fPIC", tmp_path / "other.c", "-o", library)
    first = refused(app / "MacOS" / "Slipstream").splitlines()[0]
    assert first.endswith("libpython lacks Py_DecodeLocale. Install it again.")
    library.unlink()
    missing = refused(app / "MacOS" / "Slipstream")
    assert "cannot start" in missing
    assert "Python" in missing
