"""Reads the pictures that a request has, and puts them where the model can be shown them.

Knows no dialect. A picture comes as data: no address is ever fetched, and no file is opened by
name. Each is read in the confined process of `engine.documents`, and kept for the next request,
which has the whole conversation again.
"""

import asyncio
import base64
import binascii
import re
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from threading import Event

from engine.documents.reading import NAMELESS, normalize
from engine.request import ChatMessage, Picture, Prompt
from engine.server.conversation import BETWEEN, Sent, note
from engine.server.errors import invalid
from engine.server.pair import retrieve
from models.errors import Problem

MOST_PICTURES = 100
_KEPT_BYTES = 256 << 20
_AT_ONCE = 2
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


class _Kept:
    """A picture that is read once. Attributes: `reading`, `users`."""

    def __init__(self, reading: asyncio.Task[Picture]) -> None:
        self.reading, self.users = reading, 0

    @property
    def size_bytes(self) -> int:
        """The size of its file; 0 if there is none, or no more."""
        if not self.reading.done() or self.reading.cancelled() or self.reading.exception():
            return 0
        path = Path(self.reading.result().path)
        return path.stat().st_size if path.exists() else 0


class Pictures:
    """The pictures of all requests, in a private folder that goes when this does."""

    def __init__(self, *, kept_bytes: int = _KEPT_BYTES) -> None:
        """`kept_bytes`: of pictures that no request needs at the moment."""
        self._kept_bytes = kept_bytes
        self._kept: dict[str, _Kept] = {}  # the least recently used first
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._folder: Path | None = None

    async def shown(
        self, prompt: Prompt, *, model: str, sees: bool, held: AsyncExitStack
    ) -> Prompt:
        """The prompt with its pictures read, which stay until `held` is closed.

        Raises Refusal for one in the newest question that cannot be read, or if the `model` does
        not see; in its place in an older message stands a note.
        """
        pictures = [picture for message in prompt.messages for picture in message.pictures]
        if not pictures:
            return prompt
        if len(pictures) > MOST_PICTURES:
            message = f"There are {len(pictures)} images. Send at most {MOST_PICTURES}."
            raise invalid(message, "messages", "too_many_images")
        question = prompt.messages[-1]
        if not sees and question.role == "user" and question.pictures:
            place = _place_of(question.pictures[0])
            message = f"{model} reads text only, and {place} is an image."
            raise invalid(message, place, "unsupported_content")
        kept = {picture: self._begun(picture, held) for picture in pictures} if sees else {}
        messages = [await _read(message, kept, message is question) for message in prompt.messages]
        return replace(prompt, messages=tuple(_behind_results(messages)))

    def _begun(self, picture: Picture, held: AsyncExitStack) -> _Kept:
        """A picture that is being read, or was, and is needed until `held` is closed."""
        key = sha256(picture.path.encode()).hexdigest()
        kept = self._kept.pop(key, None)
        if kept is None or (kept.reading.done() and not kept.size_bytes):
            kept = _Kept(asyncio.create_task(self._normalized(picture.path, key)))
            kept.reading.add_done_callback(retrieve)
        self._kept[key] = kept
        kept.users += 1
        held.callback(self._let_go, kept)
        return kept

    async def _normalized(self, data: str, key: str) -> Picture:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="slipstream-"))
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        content, folder, left = _bytes_of(data), self._folder / key, Event()
        folder.mkdir(parents=True, exist_ok=True)
        async with self._turns:
            try:
                reading = partial(normalize, content, folder, cancelled=left.is_set)
                return await asyncio.to_thread(reading)
            finally:
                left.set()

    def _let_go(self, kept: _Kept) -> None:
        """Forget pictures that no request needs, where there are too many."""
        kept.users -= 1
        idle = {key: each.size_bytes for key, each in self._kept.items() if not each.users}
        size = sum(idle.values())
        for key, size_bytes in idle.items():
            if size <= self._kept_bytes and size_bytes:
                continue
            if self._kept[key].reading.done():
                del self._kept[key]
                if self._folder is not None:
                    shutil.rmtree(self._folder / key, ignore_errors=True)
                size -= size_bytes


async def _read(message: ChatMessage, kept: dict[Picture, _Kept], newest: bool) -> ChatMessage:
    """The message with its pictures read, or notes in their place. Raises Refusal if it is the
    newest and one cannot be read."""
    pictures, notes = [], []
    for picture in message.pictures:
        if picture not in kept or message.role not in ("user", "tool"):
            notes.append(note("image"))
            continue
        try:
            pictures.append(await asyncio.shield(kept[picture].reading))
        except Problem as problem:
            place = _place_of(picture)
            why = problem.message.removeprefix(f"{NAMELESS}: ")
            if newest:
                why = f"{place}: {why} {problem.remedy}"
                raise invalid(why, place, "invalid_image") from None
            notes.append(f"[image: not shown. {why}]")
    content = BETWEEN.join(filter(None, (*notes, message.content)))
    return replace(message, content=content, pictures=tuple(pictures))


def _behind_results(messages: Sequence[ChatMessage]) -> Iterator[ChatMessage]:
    """The messages, with the pictures of tools' results in a user's message behind them: templates
    have no other place for pictures."""
    waiting: tuple[Picture, ...] = ()
    for message in messages:
        if message.role == "tool":
            waiting += message.pictures
            shown = "[image: shown below]" if message.pictures else ""
            content = BETWEEN.join(filter(None, (message.content, shown)))
            yield replace(message, content=content, pictures=())
            continue
        if message.role == "user":
            message = replace(message, pictures=waiting + message.pictures)
        elif waiting:
            yield ChatMessage("user", "", pictures=waiting)
        waiting = ()
        yield message
    if waiting:
        yield ChatMessage("user", "", pictures=waiting)


def _place_of(picture: Picture) -> str:
    return picture.place if isinstance(picture, Sent) else ""


def _bytes_of(data: str) -> bytes:
    """The bytes of a data URL, or of base64 alone. Raises Problem."""
    if data[:5].lower() == "data:":
        head, _, data = data.partition(",")
        if not head.lower().endswith(";base64"):
            raise Problem("Its data URL has no base64.", _SEND_DATA)
    elif _ADDRESS.match(data):
        raise Problem("It is an address, and none is ever fetched.", _SEND_DATA)
    try:
        packed = "".join(data.split()).rstrip("=")
        return base64.b64decode(packed + "=" * (-len(packed) % 4), validate=True)
    except (ValueError, binascii.Error):
        raise Problem("It is no base64.", _SEND_DATA) from None


_SEND_DATA = "Send its data: data:image/png;base64,..."
