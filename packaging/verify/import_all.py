"""Imports everything that the application may import: a program for the twin, in a single file.

Imports our own modules; mlx-lm's networks, templates and readers of tool calls; each configuration
and tokenizer of transformers. The arguments are the packages that were left out as a whole. Prints
one JSON object: the number of modules, and the reasons why some do not load. A module that needs a
package which was never to be shipped is not a fault: it loads nowhere.
"""

import importlib
import json
import pkgutil
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from importlib.util import find_spec

OWN = ("app", "engine", "models")
OF_MLX_LM = ("mlx_lm.chat_templates", "mlx_lm.models", "mlx_lm.tool_parsers")
OF_MODELS = ("configuration_", "tokenization_")


def names() -> Iterator[str]:
    """Yield the names of the modules."""
    for package in OWN:
        found = pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}.")
        yield from (module.name for module in found if not module.name.endswith("__main__"))
    for package in OF_MLX_LM:
        path = importlib.import_module(package).__path__
        yield from (module.name for module in pkgutil.iter_modules(path, f"{package}."))
    path = importlib.import_module("transformers.models").__path__
    for module in pkgutil.walk_packages(path, "transformers.models."):
        if module.name.rpartition(".")[2].startswith(OF_MODELS):
            yield module.name


def fault(error: BaseException, left_out: list[str]) -> str:
    """Return the bundle's fault; "" if the module would load nowhere."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, NameError):
            return ""  # an optional package that is not there
        if isinstance(cause, ModuleNotFoundError) and cause.name:
            first = cause.name.partition(".")[0]
            if not (first in left_out or first in sys.stdlib_module_names or find_spec(first)):
                return ""
        last, cause = cause, cause.__cause__ or cause.__context__
    return f"{type(last).__name__}: {last}"


def main(left_out: list[str]) -> None:
    """Import everything and print the object."""
    modules, faults = 0, {}
    with redirect_stdout(sys.stderr):
        for name in names():
            modules += 1
            try:
                importlib.import_module(name)
            except (Exception, SystemExit) as error:
                if found := fault(error, left_out):
                    faults[name] = found
    print(json.dumps({"modules": modules, "faults": faults}))


if __name__ == "__main__":
    main(sys.argv[1:])
