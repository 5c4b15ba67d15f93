"""Installs the clone into this Python with pip, and prints a line for each step.

Names only large packages. The Makefile runs it when nothing is installed yet; uv prints its own
progress.
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator

LARGE_MB = 2.0
_FETCHING = re.compile(r"Downloading (?:\S*/)?([\w.]+)-\d\S*\.(?:whl|tar\.gz) \(([\d.]+) (kB|MB)\)")
_KEPT = re.compile(r"Using cached (?:\S*/)?([\w.]+)-\d\S*\.(?:whl|tar\.gz) \(([\d.]+) (kB|MB)\)")
_INSTALLING = "Installing collected packages: "


def steps(lines: Iterable[str], clock: Callable[[], float] = time.monotonic) -> Iterator[str]:
    """Yield lines for people while pip's lines arrive."""
    began, fetched, kept, packages = clock(), 0.0, 0.0, 0
    asked = False
    for line in lines:
        if found := _KEPT.search(line):
            kept += _megabytes(found)
        elif found := _FETCHING.search(line):
            if not asked:
                yield f"Which packages: found in {clock() - began:.0f} s"
                began, asked = clock(), True
            size = _megabytes(found)
            fetched += size
            if size >= LARGE_MB:
                yield f"Fetching {found[1].replace('_', '-')}, {size:.0f} MB"
        elif line.startswith(_INSTALLING):
            packages = line.count(",") + 1
            there = f", {kept:.0f} MB were here already" if kept >= 1 else ""
            yield f"Fetched {fetched:.0f} MB in {clock() - began:.0f} s{there}"
            yield f"Installing {packages} packages"
            began = clock()
        elif line.startswith("Successfully installed"):
            yield f"Installed in {clock() - began:.0f} s"


def _megabytes(found: re.Match[str]) -> float:
    return float(found[2]) * (1.0 if found[3] == "MB" else 0.001)


def main(wanted: str) -> int:
    """Install `wanted`, such as `.[dev]`; return pip's exit status."""
    # Modules are compiled when they are imported; compiling all of them took most of the time.
    quiet = {"COMPILE": "0", "DISABLE_PIP_VERSION_CHECK": "1", "PROGRESS_BAR": "off"}
    environment = os.environ | {f"PIP_{name}": value for name, value in quiet.items()}
    command = [sys.executable, "-m", "pip", "install", "--no-input", "--editable", wanted]
    heard: list[str] = []

    def lines(pip: "subprocess.Popen[str]") -> Iterator[str]:
        assert pip.stdout is not None
        for line in pip.stdout:
            heard.append(line)
            yield line.strip()

    with subprocess.Popen(
        command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as pip:
        for step in steps(lines(pip)):
            print(f"  {step}", flush=True)
    if pip.returncode:
        wrong = [line for line in heard if line.startswith("ERROR")]
        sys.stderr.writelines(wrong or heard[-20:])
        print("pip could not install it, for the reason above. Mend that, then run make again.")
    return pip.returncode


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1]))
    except KeyboardInterrupt:
        sys.exit(130)
