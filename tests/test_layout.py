"""The shape of the repository: its top folder, the wheel's packages, and the length of the loop."""

import ast
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MOST_LINES_OF_THE_LOOP = 60

FOLDERS = {"app", "engine", "models", "packaging", "resources", "tests"}
FILES = {"CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile", "README.md", "pyproject.toml"}


def test_nothing_else_stands_at_the_top():
    if not (ROOT / ".git").exists():
        pytest.skip("not a clone")
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, encoding="utf-8", check=True
    )
    tops = {name.split("/")[0] for name in listed.stdout.split("\0") if name}
    visible = {top for top in tops if not top.startswith(".")}
    assert visible <= FOLDERS | FILES
    assert {"engine", "tests", "pyproject.toml"} <= visible


def test_every_package_is_in_the_wheel():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    listed = settings["tool"]["setuptools"]["packages"]
    packages = {
        ".".join(folder.parent.relative_to(ROOT).parts)
        for package in ("app", "engine", "models", "resources")
        for folder in (ROOT / package).rglob("__init__.py")
    }
    assert set(listed) == packages | {"resources"}
    # With an __init__.py it would hide the packaging that PyPI has.
    assert not (ROOT / "packaging" / "__init__.py").exists()


def test_the_loop_fits_on_a_screen():
    module = ast.parse((ROOT / "engine" / "core" / "loop.py").read_text(encoding="utf-8"))
    (function,) = (
        node
        for node in module.body
        if isinstance(node, ast.FunctionDef) and node.name == "draft_and_verify"
    )
    # It is the loop, and no function that hands on to it: rounds are chosen and committed in it.
    (loop,) = (node for node in ast.walk(function) if isinstance(node, ast.While))
    called = {node.attr for node in ast.walk(loop) if isinstance(node, ast.Attribute)}
    assert called >= {"choose", "keep", "commit", "accept", "observe"}
    assert function.end_lineno - function.lineno + 1 <= MOST_LINES_OF_THE_LOOP


def test_links_of_the_pages_lead_to_files():
    """Relative links, and paths in backticks, of every Markdown file beside the code."""
    pages = [
        path
        for folder in (ROOT, *(ROOT / name for name in ("app", "engine", "models", "packaging")))
        for path in (folder.glob("*.md") if folder == ROOT else folder.rglob("*.md"))
        if "licences" not in path.parts
    ]
    assert len(pages) > 5
    lost, followed = [], 0
    for page in pages:
        text = page.read_text(encoding="utf-8")
        links = [page.parent / link for link in re.findall(r"\]\(([\w./-]+)[)#]", text)]
        places = re.findall(r"`((?:app|engine|models|tests|resources)/[\w./-]+)`", text)
        links += [ROOT / place for place in places]
        lost += [(page.name, str(link)) for link in links if not link.exists()]
        followed += len(links)
    assert lost == []
    assert followed > 50
