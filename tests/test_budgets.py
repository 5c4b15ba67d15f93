"""How large each folder may be, how long a function, and how often a worn phrase may still be read:
`tests/budgets.toml` has the numbers.

A budget only falls. Code lines are counted by what is executed: no blanks, docstrings, comments or
imports, so that nothing is gained by deleting words. Tests are counted in whole lines.
"""

import ast
import io
import re
import subprocess
import tokenize
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path, PurePosixPath

import pytest
from vulture import Vulture

from tests.lab.mutants import mutants, mutated

ROOT = Path(__file__).parents[1]
FILE = "tests/budgets.toml"
PRODUCT = ("app", "engine", "models", "packaging")
_NO_CODE = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
    tokenize.ENCODING, tokenize.ENDMARKER,
}  # fmt: skip
_WORDS = {tokenize.STRING, tokenize.COMMENT, tokenize.FSTRING_MIDDLE}
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def git(*words):
    return subprocess.run(
        ["git", *words], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout


def lines_of(budget):
    """A budget is a number, or has `lines`, with `for` and `went` where it was raised."""
    return budget if isinstance(budget, int) else int(budget["lines"])


def code_lines(source):
    """Return how many lines of a module have code: no docstring, import or comment."""
    left_out = set[int]()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            node = node.body[0]
        elif not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        left_out |= {*range(node.lineno, (node.end_lineno or node.lineno) + 1)}
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    written = [token for token in tokens if token.type not in _NO_CODE]
    return len(
        {line for token in written for line in range(token.start[0], token.end[0] + 1)} - left_out
    )


@cache
def modules():
    """The sources that git knows, or would add."""
    names = git("ls-files", "--cached", "--others", "--exclude-standard", "*.py").splitlines()
    return {
        PurePosixPath(name): (ROOT / name).read_text(encoding="utf-8")
        for name in names
        if (ROOT / name).is_file()
    }


def folder_of(path):
    """The part of the tree that a module is counted with: a package, and the tests of a package."""
    depth = 3 if path.parts[0] == "tests" else 2
    return "/".join(path.parts[: min(len(path.parts) - 1, depth)])


def sizes():
    """The lines of each folder: of code in the product, all of them in tests."""
    code, tests = Counter[str](), Counter[str]()
    for path, source in modules().items():
        if path.parts[0] in PRODUCT:
            code[folder_of(path)] += code_lines(source)
        elif path.parts[0] == "tests":
            tests[folder_of(path)] += source.count("\n")
    return {"code": code, "tests": tests}


def phrases():
    """How often each phrase with a budget stands in the words of the product: in strings,
    docstrings and comments of its modules, and in its documents."""
    words = [
        token.string
        for path, source in modules().items()
        if path.parts[0] in PRODUCT
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type in _WORDS
    ]
    names = git("ls-files", "--cached", "--others", "--exclude-standard", "*.md").splitlines()
    there = (ROOT / name for name in names)
    words += [path.read_text(encoding="utf-8") for path in there if path.is_file()]
    text = "\n".join(words).casefold()
    return {phrase: len(re.findall(rf"\b{phrase}\b", text)) for phrase in budgets()["phrases"]}


def table(name):
    return tomllib.loads((ROOT / "tests" / f"{name}.toml").read_text(encoding="utf-8"))


def budgets(text=None):
    return table("budgets") if text is None else tomllib.loads(text)


def before():
    """The budgets before the latest change: of the last commit, or of the one before it."""
    told = git("log", "-2", "--format=%H", "--", FILE).split()
    if not told:
        return {}
    latest = git("show", f"{told[0]}:{FILE}")
    if latest != (ROOT / FILE).read_text(encoding="utf-8"):
        return budgets(latest)
    return budgets(git("show", f"{told[1]}:{FILE}")) if len(told) > 1 else {}


def test_what_makes_changes_hard_becomes_rarer():
    over = {}
    for name, counted in table("counts").items():
        sources = [
            text for path, text in modules().items() if path.is_relative_to(counted["under"])
        ]
        found = sum(len(re.findall(counted["pattern"], text, re.M)) for text in sources)
        if found > counted["most"]:
            over[name] = f"{found} of {counted['most']}"
    assert not over, "compare values, use what is public, or add a row to a test that is there"


@pytest.mark.parametrize("kind", ["code", "tests"])
def test_each_folder_is_within_its_budget(kind):
    found, allowed = sizes()[kind], budgets()[kind]
    assert found.keys() == allowed.keys(), "each folder has a budget, and each budget a folder"
    over = {
        folder: f"{lines} of {lines_of(allowed[folder])}"
        for folder, lines in found.items()
        if lines > lines_of(allowed[folder])
    }
    assert not over, "delete as much as you add, or lower another budget and say so in the entry"


def test_worn_phrases_become_fewer():
    found, allowed = phrases(), budgets()["phrases"]
    more = {phrase: f"{found[phrase]} of {allowed[phrase]}" for phrase in allowed}
    over = {phrase: more[phrase] for phrase in allowed if found[phrase] > allowed[phrase]}
    assert not over, "say it in plain words: see CONTRIBUTING, Style"


@pytest.mark.parametrize("kind", ["code", "tests"])
def test_a_budget_that_is_raised_says_for_what_and_what_went(kind):
    was = before().get(kind, {})
    silent = [
        folder
        for folder, budget in budgets()[kind].items()
        if lines_of(budget) > lines_of(was.get(folder, budget))
        and not (isinstance(budget, dict) and budget.get("for") and budget.get("went"))
    ]
    assert not silent, 'write {lines = N, for = "...", went = "..."}'


def test_tests_are_not_longer_than_what_they_test():
    whole, tests = Counter[str](), Counter[str]()
    for path, source in modules().items():
        if path.parts[0] in PRODUCT:
            whole[path.parts[0]] += source.count("\n")
        elif path.parts[0] == "tests" and len(path.parts) > 2:
            tests[path.parts[1]] += source.count("\n")
    over = {
        package: round(tests[package] / whole[package], 3)
        for package in PRODUCT
        if tests[package] > budgets()["ratio"][package] * whole[package]
    }
    assert not over


def test_functions_fit_on_a_screen():
    found = {
        f"{path}:{node.name}"
        for path, source in modules().items()
        if path.parts[0] in PRODUCT
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno >= 60
    }
    assert found == {*budgets()["long_functions"]["known"]}, "shorten it; the list only falls"


def test_nothing_is_called_by_tests_alone():
    """`uncalled` lists what Qt, a library or a name in a table calls."""
    seen = Vulture()
    seen.scavenge([str(ROOT / package) for package in PRODUCT])
    kinds = ("class", "function", "method", "property")
    found = {item.name for item in seen.get_unused_code() if item.typ in kinds}
    assert found == {*budgets()["uncalled"]["known"]}, "delete it, or list what calls it"


def test_each_dear_test_is_there_and_has_a_reason():
    for name, reason in table("durations").items():
        path, _, function = name.partition("::")
        assert reason, name
        assert f"def {function}(" in (ROOT / path).read_text(encoding="utf-8"), name


def test_each_mutant_has_its_place_and_its_proof():
    for name, mutant in mutants().items():
        put = mutated((ROOT / mutant["file"]).read_text(encoding="utf-8"), mutant)
        assert not mutant["file"].endswith(".py") or ast.parse(put)
        for proof in mutant["proof"].split():
            path, _, function = proof.partition("::")
            assert not function or f"def {function}(" in (ROOT / path).read_text(), name
            assert (ROOT / path).exists(), name


def test_each_promise_has_a_proof_that_runs(pytestconfig):
    proofs = table("promises")
    assert table("mutants").keys() == proofs.keys()
    paths = pytestconfig.getini("testpaths")
    for promise, name in proofs.items():
        assert any(PurePosixPath(name).is_relative_to(path) for path in paths), promise
        quick = [
            node
            for node in ast.walk(ast.parse((ROOT / name).read_text(encoding="utf-8")))
            if isinstance(node, ast.FunctionDef)
            and node.name.startswith("test_")
            and not any(ast.unparse(each) == "pytest.mark.slow" for each in node.decorator_list)
        ]
        assert quick, f"{promise}: every test is slow"
    kept = {f"tests/promises/{path.name}" for path in (ROOT / "tests/promises").glob("test_*.py")}
    assert kept <= {*proofs.values()}, "each file there proves a promise"
