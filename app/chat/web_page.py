"""A conversation as a web page, and as a PDF of it. The page needs no network: its styles are in
it, and it has neither pictures nor scripts.

Knows the messages and their authors; not where the page is stored.
"""

from datetime import datetime
from html import escape
from pathlib import Path
from typing import Literal

from PySide6.QtCore import QBuffer, QDateTime, QIODevice, QLocale
from PySide6.QtGui import QFont, QPageSize, QPdfWriter, QTextDocument

from app.conversations.answer_steps import in_order, line, texts_of
from app.conversations.records import Entry, ExportedChat, clean
from app.markdown.web import html_of
from engine.tools.steps import Step
from models import files
from models.in_words import one_line

Form = Literal["markdown", "json", "html", "pdf", "print"]
"""How a conversation leaves the window."""

_PIXELS_PER_INCH = 96  # as a document's margins have them
_ENDINGS = {
    "interrupted": "Interrupted",
    "failed": "Failed",
    "cancelled": "Stopped",
    "length": "Stopped at the token limit",
}
_COMMON = """
pre { font-family: Menlo, Consolas, "DejaVu Sans Mono", monospace; }
code { font-family: Menlo, Consolas, "DejaVu Sans Mono", monospace; }
"""
_SCREEN = """
:root { color-scheme: light dark; }
body { font: 16px/1.55 -apple-system, "Segoe UI", "Noto Sans", sans-serif; max-width: 46rem;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2, h3, h4, h5, h6 { line-height: 1.3; }
.message { margin: 1.6rem 0; }
.user { background: #8882; border-radius: 12px; padding: .1rem 1rem; }
.author { color: #777; font-size: .85rem; font-weight: 600; }
.ending { color: #a50; font-size: .85rem; }
.written { white-space: pre-wrap; overflow-wrap: anywhere; }
details { color: #777; border-left: 3px solid #8884; padding-left: 1rem; }
pre { background: #f6f8fa; color: #1f2328; padding: .8rem 1rem; border-radius: 8px;
  overflow-x: auto; font-size: .86rem; line-height: 1.45; }
pre code { font-size: inherit; } code { font-size: .9em; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
th, td { border: 1px solid #8886; padding: .3rem .7rem; }
blockquote { border-left: 3px solid #8886; margin-left: 0; padding-left: 1rem; color: #777; }
@media print { body { margin: 0; max-width: none; } pre { white-space: pre-wrap; }
  .message { break-inside: auto; } pre, table, blockquote { break-inside: avoid; } }
"""
_PAPER = """
h1 { font-size: 15pt; } h2 { font-size: 13pt; } h3 { font-size: 11.5pt; }
.author { color: #555555; font-size: 8.5pt; font-weight: 600; margin-top: 14px; }
.ending { color: #994400; font-size: 8.5pt; } .reasoning { color: #555555; font-size: 9pt; }
.written { white-space: pre-wrap; }
pre { background-color: #f3f4f6; white-space: pre-wrap; font-size: 8.5pt; }
code { font-size: 9pt; }
table { border-collapse: collapse; border: 1px solid #bbbbbb; margin-top: 8px; }
th { border: 1px solid #bbbbbb; padding: 4px 8px; }
td { border: 1px solid #bbbbbb; padding: 4px 8px; }
blockquote { color: #555555; margin-left: 24px; }
a { color: #0a4fb0; }
"""


def page_of(chat: ExportedChat, *, paper: bool = False) -> str:
    """Return the shown branch as an HTML page: for a screen, or for Qt's printed pages."""
    title = escape(one_line(chat.title) or "Conversation")
    parts = [f"<h1>{title}</h1>"]
    if chat.system_prompt:
        parts.append(_message("System prompt", "system", _plain(chat.system_prompt)))
    parts += [_entry(entry, paper=paper) for entry in chat.branch()]
    style = _COMMON + (_PAPER if paper else _SCREEN)
    return clean(
        "<!DOCTYPE html>\n"
        '<html><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{title}</title><style>{style}</style></head>\n"
        f"<body>\n{'\n'.join(parts)}\n</body></html>\n"
    )


def write_pdf(chat: ExportedChat, path: Path) -> None:
    """Write the shown branch as a PDF with numbered pages: completely, or not at all. It may be
    called in any thread. Raises Problem."""
    data = QBuffer()
    data.open(QIODevice.OpenModeFlag.WriteOnly)
    writer = QPdfWriter(data)
    metric = QLocale().measurementSystem() == QLocale.MeasurementSystem.MetricSystem
    sizes = QPageSize.PageSizeId
    writer.setPageSize(QPageSize(sizes.A4 if metric else sizes.Letter))
    writer.setResolution(_PIXELS_PER_INCH)
    writer.setTitle(one_line(chat.title) or "Conversation")
    writer.setCreator("Slipstream")
    document = QTextDocument()
    font = QFont()
    font.setPointSizeF(10.5)
    document.setDefaultFont(font)
    document.setHtml(page_of(chat, paper=True))
    document.print_(writer)
    data.close()
    with files.writing(path), files.replacing(path) as partial:
        partial.write_bytes(bytes(data.data().data()))


def _entry(entry: Entry, *, paper: bool) -> str:
    if entry.role != "assistant":
        return _message("You" if entry.role == "user" else "System", entry.role, _said(entry))
    body = ""
    for kind, part in in_order(entry.content, entry.parts, entry.steps):
        if isinstance(part, Step):
            for call in part.calls:
                texts = "".join(
                    f"<p>{title}</p><pre>{escape(text)}</pre>" for title, text in texts_of(call)
                )
                body += _folded(escape(line(call)), texts, paper=paper)
        elif kind == "reasoning":
            body += _folded("Thinking", html_of(part), paper=paper)
        elif kind == "content":
            body += html_of(part)
    if ending := _ENDINGS.get(entry.state):
        body += f'<p class="ending">{ending}</p>'
    author = (entry.target or "Model") + (", edited" if entry.edited else "")
    return _message(author, "assistant", body, entry.created)


def _folded(title: str, body: str, *, paper: bool) -> str:
    if paper:
        return f'<div class="reasoning"><p><b>{title}</b></p>{body}</div>'
    return f"<details><summary>{title}</summary>{body}</details>"


def _message(author: str, kind: str, body: str, created: datetime | None = None) -> str:
    when = ""
    if created is not None:
        local = QDateTime.fromSecsSinceEpoch(int(created.timestamp()))
        when = f" · {QLocale().toString(local, QLocale.FormatType.ShortFormat)}"
    head = f'<p class="author">{escape(one_line(author) + when)}</p>'
    return f'<div class="message {kind}">{head}{body}</div>'


def _said(entry: Entry) -> str:
    """Return the user's words, below the names of the documents that were sent with them."""
    names = [document.name for document in entry.sent.documents] if entry.sent else []
    attached = f"<p><i>With {escape(', '.join(map(one_line, names)))}</i></p>" if names else ""
    return attached + _plain(entry.content)


def _plain(text: str) -> str:
    return f'<p class="written">{escape(text)}</p>'
