"""What becomes of broken pictures and of bombs: `python -m tests.lab.broken_pictures`.

Reads mutated pictures of each format in one confined process, and each bomb as an attached picture
is read. Prints how many are pictures and how many a `Problem`, the time, and the most memory.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from engine.documents.reading import normalize
from models.errors import Problem
from tests.support.documents.mutations import PICTURES
from tests.support.documents.pictures import bombs

ROOT = Path(__file__).parents[2]


def mutate(count: int) -> None:
    """Print what came of this many mutated pictures of each format."""
    for format in PICTURES:
        began = time.monotonic()
        program = [sys.executable, "-m", "tests.support.documents.mutations", str(count), format]
        ended = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=True)
        came = json.loads(ended.stdout)[format]
        seconds = time.monotonic() - began
        print(f"{format:6}{came.get('read', 0):6} read{came.get('problem', 0):6} problems", end="")
        print(f"{seconds:8.1f} s")


def explode() -> None:
    """Print what came of each bomb."""
    with TemporaryDirectory() as folder:
        for name, make in bombs().items():
            data = make()
            began = time.monotonic()
            try:
                picture = normalize(data, Path(folder))
                came = f"{picture.width} x {picture.height}"
            except Problem as problem:
                came = f"{problem.message} {problem.remedy}"
            seconds = time.monotonic() - began
            peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
            print(f"{name:52}{len(data) >> 10:6} KB{seconds:6.1f} s, at most {peak:5} MB: {came}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2000, help="of each format")
    mutate(parser.parse_args().count)
    explode()
