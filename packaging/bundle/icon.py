"""The Mac's icon, out of the picture that the window shows too."""

from pathlib import Path

from PIL import Image

_SIDES = (1024, 512, 256, 128, 64, 32, 16)


def write_icon(picture: Path, path: Path) -> None:
    """Write the .icns at `path`, in all sizes that Finder and Dock ask for."""
    with Image.open(picture) as image:
        drawn = image.convert("RGBA")
    sizes = [drawn.resize((side, side), Image.Resampling.LANCZOS) for side in _SIDES]
    drawn.save(path, format="ICNS", append_images=sizes)
