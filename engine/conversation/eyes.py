"""How a target sees: the pictures of a prompt as text for its chat template, and as virtual ids.

The template writes a mark for each picture. The tower gives the text that replaces the mark, with a
placeholder token for each row of the picture; the placeholder becomes the row's virtual id. Knows
prompts and tokens, not how a tower computes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from hashlib import sha256
from itertools import islice, pairwise

import mlx.core as mx
import numpy as np
from PIL import Image

from engine.conversation.template import Shown
from engine.core.sights import Sight, Sights, Turning
from engine.device import wait
from engine.request import Picture, Prompt
from engine.virtual_ids import is_virtual, virtual_ids
from engine.vision import Grid, Pixels, Seen, Tower
from engine.vision.positions import set_back, three_dimensional
from engine.vision.tower import require_tower
from models.errors import Problem
from models.model_folder import ModelFolder

_NOTE = "[A picture, not shown: this model reads text only]"
_WITHOUT = "Choose a model that supports pictures, or remove the pictures."
_LATEST = 2  # pictures whose rows are held, which a race reads twice, or in parts


class Eyes:
    """The eyes of a target with this tower. Attribute: `sights`, of all its prompts so far."""

    def __init__(self, tower: Tower) -> None:
        self.sights: Sights = {}
        self._tower = tower
        self._pictures: dict[str, Picture] = {}  # by digest; where they were last
        self._seen = lru_cache(_LATEST)(self._look)

    def rows(self, pictures: Sequence[Picture]) -> int:
        """Return the number of these pictures' rows, which is their number of tokens. Raises
        `Problem`."""
        return sum(self._grid(picture).tokens for picture in pictures)

    def shown(self, prompt: Prompt) -> Shown:
        """Return the texts that replace the marks of a chat's pictures."""
        texts = tuple(self._grid(picture).text for picture in _pictures(prompt))
        return Shown(self._tower.mark, texts)

    def see(self, prompt: Prompt, tokens: Sequence[int]) -> list[int]:
        """The tokens of a prompt with virtual ids for the rows of its pictures, which can be read
        from now on. Raises `Problem` if these are not all there."""
        pictures = list(_pictures(prompt))
        ids = [
            id
            for picture in pictures
            for id in virtual_ids(picture.digest, self._grid(picture).tokens)
        ]
        if tokens.count(self._tower.placeholder) != len(ids):
            raise Problem("The model's chat template does not support pictures.", _WITHOUT)
        places = [place for place, token in enumerate(tokens) if token == self._tower.placeholder]
        found = list(tokens)
        for place, id in zip(places, ids, strict=True):
            found[place] = id
        left = iter(places)
        for picture in pictures:
            self._pictures[picture.digest] = picture
            grid = self._grid(picture)
            own = list(islice(left, grid.tokens))
            # The rows are together, or in several parts with marks between them.
            breaks = [row for row in range(1, len(own)) if own[row] != own[row - 1] + 1]
            for start, end in pairwise([0, *breaks, len(own)]):
                part = tuple(found[place] for place in own[start:end])
                self.sights[part[0]] = self._part(picture, grid, slice(start, end), part)
        return found

    def blind(self, tokens: Sequence[int]) -> list[int]:
        """These tokens with placeholders for virtual ids."""
        return [self._tower.placeholder if is_virtual(token) else token for token in tokens]

    def _part(self, picture: Picture, grid: Grid, rows: slice, ids: tuple[int, ...]) -> Sight:
        def look() -> Seen:
            seen = self._seen(picture.digest)
            return Seen(seen.rows[rows], tuple(deeper[rows] for deeper in seen.deeper))

        turning = None
        if grid.shape is not None:
            positions = three_dimensional(grid.tokens, [(0, grid)])
            turning = Turning(mx.array(positions), self._tower.sections, set_back([grid]))
        tower = self._tower
        return Sight(ids, look, tower.read_as, turning, tower.mutual, tower.windows_only)

    def _grid(self, picture: Picture) -> Grid:
        return self._tower.size_of(picture.width, picture.height)

    def _look(self, digest: str) -> Seen:
        seen = self._tower.embed(pixels_of(self._pictures[digest]))
        wait(seen.rows, *seen.deeper)
        return seen


def pixels_of(picture: Picture) -> Pixels:
    """The pixels of a picture, (height, width, 3), from its file. Raises `Problem`."""
    try:
        with Image.open(picture.path, formats=("PNG",)) as opened:
            if opened.size != (picture.width, picture.height):
                raise ValueError(picture.path)
            pixels = np.asarray(opened.convert("RGB"))
    except (OSError, ValueError, SyntaxError) as error:
        message = f"The picture {picture.path} is missing or damaged."
        raise Problem(message, "Attach it again.") from error
    digest = sha256(f"{picture.width} {picture.height}\n".encode() + pixels.tobytes())
    if digest.hexdigest() != picture.digest:
        raise Problem(f"The picture {picture.path} has changed.", "Attach it again.")
    return pixels


def without_earlier(prompt: Prompt) -> Prompt:
    """The prompt with a note in place of each picture before the user's newest message: a
    conversation goes on with a target that cannot see."""
    messages = list(prompt.messages)
    newest = max((n for n, message in enumerate(messages) if message.role == "user"), default=0)
    for number, message in enumerate(messages[:newest]):
        notes = filter(None, (message.content, *(_NOTE for _ in message.pictures)))
        # After the text, in which places are known.
        messages[number] = replace(message, content="\n\n".join(notes), pictures=())
    return replace(prompt, messages=tuple(messages))


def refuse_unseen(prompt: Prompt, eyes: Eyes | None, folder: ModelFolder) -> None:
    """Raise `Problem` for pictures if the target in this folder has no `eyes`, or if a picture is
    not in a user message."""
    showing = {message.role for message in prompt.messages if message.pictures}
    if showing and eyes is None:
        require_tower(folder)  # which raises
        raise Problem(
            "A model on several Macs does not support pictures.",
            "Load it on one Mac, or remove the pictures.",
        )
    if showing - {"user"}:
        raise Problem("Only user messages can contain pictures.", "Attach them to one.")


def _pictures(prompt: Prompt) -> Iterator[Picture]:
    for message in prompt.messages:
        yield from message.pictures
