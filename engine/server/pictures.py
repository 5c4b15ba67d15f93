"""Reads the pictures and documents that a request has, and puts them where the model reads them.

Knows no dialect. They come as data: no address is ever fetched, and no file is opened by name.
Each is read in the confined process of `engine.documents`, and kept for the next request, which has
the whole conversation again.
"""

import asyncio
import base64
import binascii
import re
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path, PurePath
from threading import Event
from urllib.parse import unquote_to_bytes

from engine.documents.reading import NAMELESS, normalize, read_document
from engine.request import ChatMessage, Picture, Prompt
from engine.server.conversation import BETWEEN, Sent, in_document, note
from engine.server.errors import invalid
from engine.server.pair import retrieve
from models.errors import Problem

MOST_PICTURES = 100
_KEPT_BYTES = 256 << 20
_AT_ONCE = 2
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


class _Kept:
    """A picture, or the text of a document, that is read once. Attributes: `reading`, `users`."""

    def __init__(self, reading: asyncio.Task[Picture | str]) -> None:
        self.reading, self.users = reading, 0

    @property
    def size_bytes(self) -> int:
        """The size of its file or text; 0 if there is none, or no more."""
        if not self.reading.done() or self.reading.cancelled() or self.reading.exception():
            return 0
        read = self.reading.result()
        if isinstance(read, str):
            return len(read)
        path = Path(read.path)
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
        """The prompt with its pictures and documents read, which stay until `held` is closed.

        Raises Refusal for one in the newest question that cannot be read, or if the `model` does
        not see; in an older message, or a tool's result, a note replaces it.
        """
        sent = [picture for message in prompt.messages for picture in message.pictures]
        if not sent:
            return prompt
        question = prompt.messages[-1] if prompt.messages[-1].role == "user" else None
        asked = [p for p in question.pictures if not _name_of(p)] if question else []
        if len(asked) > MOST_PICTURES:
            message = f"The message has {len(asked)} images. Send at most {MOST_PICTURES}."
            raise invalid(message, "messages", "too_many_images")
        if not sees and asked:
            place = _place_of(asked[0])
            message = f"{place}: {model} does not support images."
            raise invalid(message, place, "unsupported_content")
        pictures = [p for p in sent if not _name_of(p)][-MOST_PICTURES:] if sees else []
        documents = [file for file in sent if _name_of(file)]
        kept = {each: self._begun(each, held) for each in (*pictures, *documents)}
        left = f"[image: not shown. The newest {MOST_PICTURES} are.]" if sees else note("image")
        messages = [
            await _read(message, kept, message is question, left) for message in prompt.messages
        ]
        return replace(prompt, messages=tuple(_behind_results(messages)))

    def _begun(self, picture: Picture, held: AsyncExitStack) -> _Kept:
        """A picture that is being read, or was, and is needed until `held` is closed."""
        name = _name_of(picture)
        key = sha256(f"{name}\n{picture.path}".encode()).hexdigest()
        kept = self._kept.pop(key, None)
        if kept is None or (kept.reading.done() and not kept.size_bytes):
            kept = _Kept(asyncio.create_task(self._normalized(picture.path, key, name)))
            kept.reading.add_done_callback(retrieve)
        self._kept[key] = kept
        kept.users += 1
        held.callback(self._let_go, kept)
        return kept

    async def _normalized(self, data: str, key: str, name: str) -> Picture | str:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="slipstream-"))
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        content, folder, left = _bytes_of(data, name), self._folder / key, Event()
        folder.mkdir(parents=True, exist_ok=True)
        async with self._turns:
            try:
                read = partial(_document, name=name) if name else normalize
                return await asyncio.to_thread(read, content, folder, cancelled=left.is_set)
            finally:
                left.set()

    def _let_go(self, kept: _Kept) -> None:
        """Forget pictures that no request needs, where there are too many."""
        kept.users -= 1
        idle = {key: kept.size_bytes for key, kept in self._kept.items() if not kept.users}
        size = sum(idle.values())
        for key, size_bytes in idle.items():
            if size <= self._kept_bytes and size_bytes:
                continue
            if self._kept[key].reading.done():
                del self._kept[key]
                if self._folder is not None:
                    shutil.rmtree(self._folder / key, ignore_errors=True)
                size -= size_bytes


async def _read(
    message: ChatMessage, kept: dict[Picture, _Kept], newest: bool, left: str
) -> ChatMessage:
    """The message with its pictures and documents read, or notes in their place, `left` for those
    that are not kept. Raises Refusal if it is the newest question and one cannot be read."""
    pictures, notes = [], []
    for picture in message.pictures:
        kind = "file" if _name_of(picture) else "image"
        if picture not in kept or (kind == "image" and message.role not in ("user", "tool")):
            notes.append(note("image") if picture in kept else left)
            continue
        try:
            read = await asyncio.shield(kept[picture].reading)
            if isinstance(read, str):
                notes.append(read)
            else:
                pictures.append(read)
        except Problem as problem:
            place = _place_of(picture)
            why = problem.message.removeprefix(f"{NAMELESS}: ")
            if newest:
                why = f"{place}: {why} {problem.remedy}"
                raise invalid(why, place, f"invalid_{kind}") from None
            notes.append(f"[{kind}: not shown. {why}]")
    content = BETWEEN.join(filter(None, (*notes, message.content)))
    return replace(message, content=content, pictures=tuple(pictures))


def _behind_results(messages: Sequence[ChatMessage]) -> Iterator[ChatMessage]:
    """The messages, with the pictures of tools' results in a user's message after them: templates
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


def _name_of(sent: Picture) -> str:
    """The name of a document; "" for a picture."""
    return sent.name if isinstance(sent, Sent) else ""


def _document(content: bytes, folder: Path, *, cancelled: Callable[[], bool], name: str) -> str:
    """Return the text of a document, as a part of a message. Raises Problem."""
    suffix = PurePath(name).suffix
    path = folder / f"document{suffix if suffix[1:].isalnum() else ''}"
    path.write_bytes(content)
    try:
        document = read_document(path, cancelled=cancelled)
    except Problem as problem:
        raise Problem(problem.message.removeprefix(f"{path.name}: "), problem.remedy) from None
    finally:
        path.unlink()
    text = BETWEEN.join((document.text, *(f"[{line}]" for line in document.left_out)))
    return in_document(name, text)


def _bytes_of(data: str, name: str) -> bytes:
    """The bytes of a data URL, or of base64 alone. Raises Problem."""
    if data[:5].lower() == "data:":
        head, _, data = data.partition(",")
        if not head.lower().endswith(";base64"):
            if name:
                return unquote_to_bytes(data)
            raise Problem("Its data URL is not base64.", _SEND_DATA)
    elif _ADDRESS.match(data):
        raise Problem("Addresses are not fetched.", _SEND_DATA)
    try:
        packed = "".join(data.split()).rstrip("=")
        return base64.b64decode(packed + "=" * (-len(packed) % 4), validate=True)
    except (ValueError, binascii.Error):
        raise Problem("It is not base64.", _SEND_DATA) from None


_SEND_DATA = "Send the data, such as data:image/png;base64,..."
