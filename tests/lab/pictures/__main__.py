"""Draws the window in its chief states and saves the pictures: light and dark, at 1x and 2x.

    python -m tests.lab.pictures.__main__ FOLDER [scale]

Needs no model and no display. The answers and all figures are made up, which is why the model in
the pictures is called a simulated one. Each scale wants a process of its own.
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
RACE_QUESTION = "Why is the sky blue, and red in the evening?"
RACE_ANSWER = """\
Sunlight has all colours in it. On its way through the air it meets molecules that are much \
smaller than a wave of light, and these scatter short waves far more than long ones: blue about \
four times as much as red. So blue light comes from all over the sky, and the sky is blue.

In the evening the light comes in flat and has a much longer way through the air. By the time it \
arrives, most of the blue has been scattered out of it, and what is left is orange and red.

Violet is scattered even more than blue. But there is less of it in sunlight, and the eye sees \
it less well.

Clouds are white because their drops are larger than the waves: they scatter all colours alike. \
Where a cloud is thick, little of the light comes through, and it looks grey from below.

On the Moon there is no air, and nothing to scatter the light. There the sky is black, by day too.
"""
SIMULATED = Path("/models/simulated-model")
EARLIER = (  # titles, and what was asked
    (
        "A letter to the landlord about the heating",
        "Write a short letter to my landlord: the heating has been broken since Monday.",
    ),
    (
        "Regular expressions for dates",
        "Which regular expression finds dates like 2024-02-29, and how do I test it?",
    ),
    ("Why the sky is blue", RACE_QUESTION),
    (
        "Packing list for three days in Lisbon",
        "I will be in Lisbon for three days in April. What should I pack?",
    ),
    (
        "Prime factors by hand",
        "How do I find the prime factors of 391 without a calculator?",
    ),
)


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    if len(sys.argv) > 2:
        draw(folder, suffix="" if sys.argv[2] == "1" else f"@{sys.argv[2]}x")
        return
    for scale in ("1", "2"):
        environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen", "QT_SCALE_FACTOR": scale}
        command = [sys.executable, "-m", "tests.lab.pictures.__main__", str(folder), scale]
        subprocess.run(command, env=environment, check=True)


def draw(folder: Path, *, suffix: str) -> None:
    """All pictures at the scale of this process."""
    from app.start import make_application
    from tests.lab.pictures.made_states import Photographer

    application = make_application(["screenshots"])
    for dark in (False, True):
        with tempfile.TemporaryDirectory() as home:
            name = "dark" if dark else "light"

            def save(what: str, grab: Callable[[str], None], name: str = name) -> None:
                grab(str(folder / f"{what}-{name}{suffix}.png"))

            Photographer(application, Path(home), dark=dark).all(save)


if __name__ == "__main__":
    main()
