"""What README shows works: its lines of Python are run as they stand there."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
STORIES = ROOT / "tests" / "data" / "stories260K"
EXAMPLE = '"path/to/an/mlx/folder"'


def test_the_example_in_python_writes_an_answer():
    (program,) = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)
    assert EXAMPLE in program
    ran = subprocess.run(
        [sys.executable, "-c", program.replace(EXAMPLE, repr(str(STORIES)))],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert ran.returncode == 0, ran.stderr
    assert len(ran.stdout.split()) > 20
