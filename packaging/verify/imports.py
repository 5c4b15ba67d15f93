"""Checks that the bundle has all modules that the application imports, as parts are left out.

Reads source and runs nothing, so it checks the Mac's bundle on Linux. Starts at our own modules, of
which every import counts, even within functions; of other modules only imports count that run when
the module is imported. An import that may fail (`try`, `suppress`), or is conditional (`if`), is
not followed. Names made at run time, such as tokenizers', are not seen: the twin imports
these (see `twin.py`).
"""

import ast
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bundle.assemble import PACKAGES
from verify import Finding

_OWN = ("app", "engine", "models")
_BUILT_IN = frozenset(sys.builtin_module_names) | {
    "_frozen_importlib",
    "_frozen_importlib_external",
}
_MADE_AT_START = ("collections.abc", "os.path")  # other modules of Python's, under these names
_MAY_FAIL = re.compile(r"\b(ImportError|ModuleNotFoundError|(Base)?Exception)\b")
_MADE_WHEN_ASKED = re.compile(r"__getattr__|import \*|_LazyModule|globals\(\)")

type _Modules = Mapping[str, Path]  # a file for each name; a package's is its __init__


def imports(app: Path) -> Iterator[Finding]:
    """Find imports of modules that are not in the bundle."""
    packages = app / PACKAGES
    modules = _modules(packages.parent / "lib-dynload")
    modules |= _modules(packages.parent, leave_out=("site-packages", "lib-dynload"))
    modules |= _modules(packages)
    waiting = [name for name in modules if name.partition(".")[0] in _OWN]
    seen = set(waiting)
    while waiting:
        module = waiting.pop()
        file = modules[module]
        if file.suffix != ".py":
            continue
        path = file.relative_to(app).as_posix()
        try:
            imported = sorted(set(_imported(module, file, modules)))
        except SyntaxError as error:
            yield Finding("imports", path, f"cannot be read: {error.msg}")
            continue
        for wanted in imported:
            if wanted.startswith(_MADE_AT_START) or wanted.partition(".")[0] in _BUILT_IN:
                continue
            if wanted not in modules:
                yield Finding("imports", path, f"imports {wanted}, which is not in the bundle")
                continue
            parts = wanted.split(".")
            names = {".".join(parts[: end + 1]) for end in range(len(parts))}
            new = sorted(name for name in names - seen if name in modules)
            seen.update(new)
            waiting.extend(new)


def _modules(folder: Path, *, leave_out: Sequence[str] = ()) -> dict[str, Path]:
    """Return all modules below `folder` and its packages, with or without an __init__."""
    found: dict[str, Path] = {}
    for place, folders, files in folder.walk():
        folders[:] = [name for name in folders if name.isidentifier() and name not in leave_out]
        package = place.relative_to(folder).parts
        if package:
            found.setdefault(".".join(package), place)  # unless it has an __init__
        for file in files:
            name, _, rest = file.partition(".")
            if rest == "py" or rest.endswith("so"):
                parts = package if name == "__init__" else (*package, name)
                found[".".join(parts)] = place / file
    return found


def _imported(module: str, file: Path, modules: _Modules) -> Iterator[str]:
    """Yield the names of the modules that `module` imports."""
    parts = module.split(".")
    package = parts if file.name == "__init__.py" else parts[:-1]
    body = ast.parse(file.read_bytes()).body
    for node in _statements(body, within_functions=parts[0] in _OWN):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
            continue
        start = package[: len(package) - node.level + 1] if node.level else []
        name = ".".join([*start, *([node.module] if node.module else [])])
        yield name
        for alias in node.names:
            if f"{name}.{alias.name}" in modules or not _may_have(modules.get(name), alias.name):
                yield f"{name}.{alias.name}"


def _statements(
    body: Sequence[ast.stmt], *, within_functions: bool
) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield the imports among these statements that must not fail."""
    for node in body:
        inner: list[ast.stmt] = []
        match node:
            case ast.Import() | ast.ImportFrom():
                yield node
            case ast.Try():
                caught = " ".join(ast.unparse(one.type) for one in node.handlers if one.type)
                may_fail = _MAY_FAIL.search(caught) or any(not one.type for one in node.handlers)
                inner = [*([] if may_fail else node.body), *node.orelse, *node.finalbody]
            case ast.With() if not any(_MAY_FAIL.search(ast.unparse(one)) for one in node.items):
                inner = node.body
            case ast.ClassDef():
                inner = node.body
            case ast.FunctionDef() | ast.AsyncFunctionDef() if within_functions:
                inner = node.body
            case _:
                pass
        yield from _statements(inner, within_functions=within_functions)


def _may_have(file: Path | None, name: str) -> bool:
    """Whether a module may define this name; a package's __init__ must contain it."""
    if file is None or file.name != "__init__.py":
        return True
    source = file.read_text(encoding="utf-8")
    return name == "*" or name in source or _MADE_WHEN_ASKED.search(source) is not None
