"""A conversation as a web page, and as a PDF of it. The page needs no network: its styles,
from resources/, are in it, and it has neither pictures nor scripts.

Knows the messages and their authors; not where the page is stored.
"""

from datetime import datetime
from html import escape
from pathlib import Path
from typing import Literal

from PySide6.QtCore import QBuffer, QDateTime, QIODevice, QLocale
from PySide6.QtGui import (
    QFont,
    QPageSize,
    QPdfWriter,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
)

from app.chat.message_view import Ending
from app.conversations.answer_steps import in_order, line, texts_of
from app.conversations.records import Entry, ExportedChat, clean
from app.markdown.formulas import FormulaObjects, formula_format, formula_size, lay_out_all
from app.markdown.page import OBJECT
from app.markdown.web import formulas_in, html_of, with_formulas
from engine.tools.steps import Step
from models import files
from models.in_words import one_line

Form = Literal["markdown", "json", "html", "pdf", "print"]
"""How a conversation leaves the window."""

_PIXELS_PER_INCH = 96  # as a document's margins have them
_STYLES = Path(__file__).parents[2] / "resources"


def page_of(chat: ExportedChat, *, paper: bool = False) -> str:
    """Return the shown branch as an HTML page: for a screen, or for Qt's printed pages."""
    title = escape(one_line(chat.title) or "Conversation")
    parts = [f"<h1>{title}</h1>"]
    if chat.system_prompt:
        parts.append(_message("System prompt", "system", _plain(chat.system_prompt)))
    parts += [_entry(entry, paper=paper) for entry in chat.branch()]
    name = "conversation_on_paper.css" if paper else "conversation.css"
    style = (_STYLES / name).read_text(encoding="utf-8")
    page = clean(
        "<!DOCTYPE html>\n"
        '<html><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{title}</title><style>{style}</style></head>\n"
        f"<body>\n{'\n'.join(parts)}\n</body></html>\n"
    )
    return page if paper else _with_outlines(page)


def _with_outlines(page: str) -> str:
    outlines = lay_out_all(formulas_in(page))
    return with_formulas(page, lambda f: outline.svg(f) if (outline := outlines.get(f)) else "")


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
    _write_page(document, page_of(chat, paper=True), em=formula_size(font, writer))
    document.print_(writer)
    data.close()
    with files.writing(path), files.replacing(path) as partial:
        partial.write_bytes(bytes(data.data().data()))


def _write_page(document: QTextDocument, page: str, *, em: float) -> None:
    """Write an HTML page into a document, with its formulas as objects of the text."""
    outlines = lay_out_all(formulas_in(page))
    place = '<img src="formula" />'
    document.setHtml(with_formulas(page, lambda f: place if outlines.get(f) else ""))
    FormulaObjects(outlines.get, document)
    plain, cursor = QTextCharFormat(), QTextCursor(document)
    plain.setFont(document.defaultFont())
    for formula in filter(outlines.get, formulas_in(page)):
        while not (cursor.isNull() or cursor.charFormat().isImageFormat()):
            cursor = document.find(OBJECT, cursor)
        cursor.setCharFormat(formula_format(plain, formula, em=em, find=outlines.get))


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
    if ending := Ending(entry.state).text:
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
