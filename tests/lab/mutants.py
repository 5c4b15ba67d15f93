"""Shows that each proof in tests/promises.toml catches the fault that tests/mutants.toml names.

Each fault is written into a copy of the tree, where the promise's proof alone runs: it must fail,
and pass without the fault. `make mutants ARGS="WORD ..."` tries those whose promise has one of the
words.
"""

import os
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from shutil import copy2
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).parents[2]
SECONDS = 900
PASSED, FAILED = 0, 1  # pytest's status


def table(name: str) -> dict[str, Any]:
    """Return a table of tests/, by the promise."""
    return tomllib.loads((ROOT / "tests" / f"{name}.toml").read_text(encoding="utf-8"))


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
    """Run a proof in the tree. Returns pytest's status; if it hangs, that of a failure."""
    words = ("-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-n", "0", proof)
    with subprocess.Popen(
        [str(tree / ".venv" / "bin" / "python"), *words],
        cwd=tree,
        env=os.environ | {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"},
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
    proofs, missed = table("promises"), 0
    with TemporaryDirectory() as folder:
        tree = Path(folder)
        copy_tree(tree)
        for promise, mutant in table("mutants").items():
            if words and not any(word in promise for word in words):
                continue
            file, proof, began = tree / mutant["file"], proofs[promise], time.monotonic()
            sound = file.read_text(encoding="utf-8")
            file.write_text(mutated(sound, mutant), encoding="utf-8")
            caught = status_of(proof, tree) == FAILED
            file.write_text(sound, encoding="utf-8")
            caught = caught and status_of(proof, tree) == PASSED
            missed += not caught
            seconds = time.monotonic() - began
            print(f"{'caught' if caught else 'MISSED'} {seconds:4.0f} s  {promise}", flush=True)
    return missed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
