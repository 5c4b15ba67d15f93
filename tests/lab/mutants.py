"""Shows that tests catch the faults that they are for: each promise's proof that of
tests/mutants.toml, and a package's tests those of tests/mutants/PACKAGE.toml.

Each fault is written into a copy of the tree, where its proof alone runs: it must fail, and pass
without the fault. `make mutants ARGS="WORD ..."` tries those whose name has one of the words: a
promise, or "PACKAGE: fault".
"""

import os
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from itertools import count
from pathlib import Path
from shutil import copy2
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).parents[2]
SECONDS = 900
PASSED, FAILED = 0, 1  # pytest's status


def table(name: str) -> dict[str, Any]:
    """Return a table of tests/, by the promise or by the fault."""
    return tomllib.loads((ROOT / "tests" / f"{name}.toml").read_text(encoding="utf-8"))


def mutants() -> dict[str, dict[str, str]]:
    """Return all mutants with their proofs, by name: those of promises, then each package's."""
    proofs = table("promises")
    found = {name: {**mutant, "proof": proofs[name]} for name, mutant in table("mutants").items()}
    for file in sorted((ROOT / "tests" / "mutants").glob("*.toml")):
        listed = table(f"mutants/{file.stem}").items()
        found |= {f"{file.stem}: {name}": mutant for name, mutant in listed}
    return found


def copy_tree(to: Path) -> None:
    """Copy all files that git knows or would add; the environment is shared."""
    words = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            copy2(ROOT / name, to / name)
    (to / ".venv").symlink_to(ROOT / ".venv")


def mutated(source: str, mutant: Mapping[str, str]) -> str:
    """Return the source with the fault. Raises ValueError if its place is not unambiguous."""
    if source.count(mutant["find"]) != 1 or mutant["find"] == mutant["put"]:
        raise ValueError(f"{mutant['find']!r} stands {source.count(mutant['find'])} times")
    return source.replace(mutant["find"], mutant["put"])


def status_of(proof: str, tree: Path) -> int:
    """Run tests, with spaces between, in the tree. Returns pytest's status; 1 if one hangs."""
    words = ("-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-n", "0", *proof.split())
    with subprocess.Popen(
        [str(tree / ".venv" / "bin" / "python"), *words],
        cwd=tree,
        env=os.environ | {"PYTHONPATH": str(tree)},
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        try:
            return process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            return FAILED
        finally:  # also what a proof that was cut off has left running
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def main(words: list[str]) -> int:
    """Try the mutants, and return how many were not caught."""
    missed, stamps = 0, count(int(time.time()))
    with TemporaryDirectory() as folder:
        tree = Path(folder)
        copy_tree(tree)

        def write(file: Path, text: str) -> None:
            file.write_text(text, encoding="utf-8")
            os.utime(file, (0, next(stamps)))  # or the module compiled of another text would do

        @cache
        def is_sound(proof: str) -> bool:
            return status_of(proof, tree) == PASSED

        for name, mutant in mutants().items():
            if words and not any(word in name for word in words):
                continue
            file, began = tree / mutant["file"], time.monotonic()
            sound = file.read_text(encoding="utf-8")
            write(file, mutated(sound, mutant))
            caught = status_of(mutant["proof"], tree) == FAILED
            write(file, sound)
            caught = is_sound(mutant["proof"]) and caught
            missed += not caught
            seconds = time.monotonic() - began
            print(f"{'caught' if caught else 'MISSED'} {seconds:4.0f} s  {name}", flush=True)
    return missed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
