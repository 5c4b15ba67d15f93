"""Draws the window in its chief states and saves the pictures: light and dark, at 1x and 2x.

    python -m tests.app.screenshots FOLDER [scale]

Needs no model and no display; the answers are made up. Each scale wants a process of its own.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

ANSWER = """\
A prime has **no divisor** but one and itself. It is enough to try those up to the square root:

```python
def is_prime(number: int) -> bool:
    if number < 2:
        return False
    for divisor in range(2, int(number**0.5) + 1):
        if number % divisor == 0:
            return False
    return True
```

| number | divisors tried | prime |
|-------:|:---------------|:------|
| 7      | 2              | yes   |
| 9      | 2, 3           | no    |
| 97     | 2 to 9         | yes   |

1. Even numbers end at the first step, since `2` divides them.
2. The square root of 97 is *just* below ten, so nine steps are enough.
"""
QUESTION = "Write a Python function that says whether a number is prime, and show three cases."
TITLES = (
    "A letter to the landlord about the heating",
    "Regular expressions for dates",
    "Why the sky is blue",
    "Packing list for three days in Lisbon",
    "Refactoring the parser",
)


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    if len(sys.argv) > 2:
        draw(folder, suffix="" if sys.argv[2] == "1" else f"@{sys.argv[2]}x")
        return
    for scale in ("1", "2"):
        environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen", "QT_SCALE_FACTOR": scale}
        command = [sys.executable, "-m", "tests.app.screenshots", str(folder), scale]
        subprocess.run(command, env=environment, check=True)


def draw(folder: Path, *, suffix: str) -> None:
    """All pictures at the scale of this process."""
    from app.start import make_application
    from tests.app.pictures import Photographer

    application = make_application(["screenshots"])
    for dark in (False, True):
        with tempfile.TemporaryDirectory() as home:
            name = "dark" if dark else "light"

            def save(what: str, grab: Callable[[str], None], name: str = name) -> None:
                grab(str(folder / f"{what}-{name}{suffix}.png"))

            Photographer(application, Path(home), dark=dark).all(save)


if __name__ == "__main__":
    main()
