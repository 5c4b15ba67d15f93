"""What a server sent, as values of bounded size: the tools that it offers, the text of a result.

Texts lose the characters that people do not see. Other content becomes a line that describes
it.
"""

import json
from collections.abc import Iterable
from typing import Any

import mcp_types as types

from engine.documents.hidden import in_one_line, with_plain_lines, without_hidden
from engine.tools.protocol import Offered
from models.in_words import size

MOST_TOOLS = 256  # of a server
LONGEST_DESCRIPTION = 8_000  # characters; so for what a server says about itself
LONGEST_RESULT_BYTES = 1 << 20
_LONGEST_NAME = 128
_LONGEST_TITLE = 200
_LONGEST_SCHEMA_BYTES = 100_000
_ALL_TOOLS_BYTES = 1 << 20  # descriptions and schemas together
_LONGEST_LINK = 500


def shown(text: str, longest: int = LONGEST_DESCRIPTION) -> str:
    """`text` without hidden characters, and cut if it is long."""
    text = without_hidden(with_plain_lines(text[: 2 * longest]))[0].strip()
    return text if len(text) <= longest else f"{text[: longest - 1].rstrip()}…"


def short(text: str, longest: int = _LONGEST_TITLE) -> str:
    """`text` in one line, cut if it is long."""
    return shown(in_one_line(text[: 2 * longest]), longest)


def offered(
    server: str, tools: Iterable[types.Tool]
) -> tuple[tuple[Offered, ...], tuple[str, ...]]:
    """The tools of a server, and the names of others, left out: without a usable name, with
    a name that another has, or with more text than a model could read."""
    found: dict[str, Offered] = {}
    left_out, total = list[str](), 0
    for tool in tools:
        schema = _json(tool.input_schema)
        description = shown(tool.description or "")
        size_bytes = _bytes(schema) + _bytes(description)
        named = 0 < len(tool.name) <= _LONGEST_NAME and in_one_line(tool.name) == tool.name
        fits = _bytes(schema) <= _LONGEST_SCHEMA_BYTES and total + size_bytes <= _ALL_TOOLS_BYTES
        if not named or not fits or tool.name in found or len(found) == MOST_TOOLS:
            left_out.append(tool.name)
            continue
        total += size_bytes
        notes = tool.annotations
        title = tool.title or (notes.title if notes else None) or ""
        read_only = bool(notes and notes.read_only_hint)
        found[tool.name] = Offered(server, tool.name, short(title), description, schema, read_only)
    return tuple(found.values()), tuple(left_out)


def result_text(result: types.CallToolResult) -> tuple[str, int]:
    """The text of a result, and the number of bytes of all of it."""
    blocks = [_block(block) for block in result.content]
    if not blocks and result.structured_content is not None:
        text = _json(result.structured_content)
        blocks = [(text, _bytes(text))]
    return _cut("\n".join(text for text, _ in blocks)) or "(nothing)", sum(n for _, n in blocks)


def _block(block: types.ContentBlock) -> tuple[str, int]:
    """The text for a part of a result, and the number of bytes of that part."""
    match block:
        case types.TextContent(text=text):
            return text, _bytes(text)
        case types.ImageContent(data=data) | types.AudioContent(data=data):
            return _line(block.type, block.mime_type, _decoded(data)), _decoded(data)
        case types.ResourceLink(uri=uri, name=name, mime_type=kind, size=size_bytes):
            return _line("link", f"{name} {uri}", size_bytes or 0, kind or ""), _bytes(uri)
        case types.EmbeddedResource(resource=types.TextResourceContents(uri=uri, text=text)):
            return f"{_line('resource', uri, _bytes(text))}\n{text}", _bytes(text)
        case types.EmbeddedResource(resource=resource):
            assert isinstance(resource, types.BlobResourceContents)
            length, kind = _decoded(resource.blob), resource.mime_type or ""
            return _line("resource", resource.uri, length, kind), length


def _line(what: str, name: str, size_bytes: int, kind: str = "") -> str:
    """A line that describes other content: "[image: image/png, 2.31 kB]"."""
    parts = (short(name, _LONGEST_LINK), short(kind), size(size_bytes) if size_bytes else "")
    return f"[{what}: {', '.join(filter(None, parts))}]"


def _cut(text: str) -> str:
    total = _bytes(text)
    if total > LONGEST_RESULT_BYTES:
        text = text.encode(errors="replace")[:LONGEST_RESULT_BYTES].decode(errors="ignore")
        text += f"\n[cut: the first {size(LONGEST_RESULT_BYTES)} of {size(total)}]"
    return without_hidden(with_plain_lines(text))[0].strip()


def _bytes(text: str) -> int:
    return len(text.encode(errors="replace"))


def _decoded(base64: str) -> int:
    return len(base64.rstrip("=")) * 3 // 4


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
