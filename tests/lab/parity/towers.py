"""All families of towers against transformers, from files named and laid out as their makers do.

Where transformers has no processor by Pillow, pictures have a size that none is changed.
"""

from tests.lab.parity import gemma3, sight
from tests.lab.parity.by_torch import by_torch
from tests.lab.parity.sight import Sight
from tests.lab.parity.subjects import Arrays, subjects

SUBJECTS = subjects("towers", Sight)


def ours(subject: Sight) -> Arrays:
    """By our tower: its rows alone."""
    found = sight.ours(subject).items()
    return {name: rows for name, rows in found if name.startswith(("rows", "deeper"))}


def theirs(subject: Sight) -> Arrays:
    """By transformers; those of Gemma as they are before the model enlarges them."""
    inputs = {f"picture {index}": pixels for index, pixels in enumerate(subject.drawn())}
    found = by_torch("towers_torch.py", subject, inputs, packages="transformers and torchvision")
    scale = gemma3.TEXT**0.5 if "gemma" in subject.name else 1.0
    return {name: rows / scale for name, rows in found.items()}
