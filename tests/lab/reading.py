"""What is lost in reading a folder of other people's files: `python -m tests.lab.reading FOLDER`.

Each file is read as an attached one is, in its own process. Its words are compared with those that
another program finds, if that is installed: pdftotext, python-docx, python-calamine; where none is,
with all text in the XML of an office file. Prints a table by kind, and with `--files` a line for
each file that lacks words or is a `Problem`. Fetches nothing, and writes nothing.
"""

import argparse
import re
import shutil
import subprocess
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from xml.etree.ElementTree import fromstring
from zipfile import ZipFile

from engine.documents.reading import read_document
from models.errors import Problem

_BETWEEN = ("}br", "}tab", "}cr")
_WORD = re.compile(r"[^\W\d_]{2,}")  # numbers look as cells show them, so they are not compared
_PARTS = re.compile(r"(word/(document|footnotes|endnotes)|ppt/slides/slide\d+)\.xml")
_SUFFIXES = re.compile(r"\.(pdf|docx|xlsx|pptx|epub|html?|csv|txt|md|eml|webarchive|ipynb)")


@dataclass(slots=True)
class Tally:
    """What came of the files of one kind. `lost`, `words`: of those that another program finds."""

    read: int = 0
    problems: int = 0
    seconds: float = 0.0
    words: int = 0
    lost: int = 0
    compared: int = 0
    lines: list[str] = field(default_factory=list)


def words_by_pdftotext(path):
    command = ["pdftotext", "-enc", "UTF-8", str(path), "-"]
    return subprocess.run(command, capture_output=True, check=True).stdout.decode(errors="replace")


def words_by_python_docx(path):
    document = import_module("docx").Document(str(path))

    def texts(holder):
        for paragraph in holder.paragraphs:
            yield paragraph.text
        for table in holder.tables:
            for cell in {cell._tc: cell for row in table.rows for cell in row.cells}.values():
                yield from texts(cell)

    return "\n".join(texts(document))


def words_by_calamine(path):
    workbook = import_module("python_calamine").CalamineWorkbook.from_path(str(path))
    shown = [each.name for each in workbook.sheets_metadata if "Visible" in str(each.visible)]
    rows = chain.from_iterable(workbook.get_sheet_by_name(name).to_python() for name in shown)
    return "\n".join(str(cell) for row in rows for cell in row)


def words_in_xml(path):
    """All that stands in the text elements of a document or of slides."""
    with ZipFile(path) as parts:
        roots = [
            fromstring(parts.read(name)) for name in parts.namelist() if _PARTS.fullmatch(name)
        ]
    paragraphs = [each for root in roots for each in root.iter() if each.tag.endswith("}p")]
    return "\n".join(
        "".join(
            (each.text or "") if each.tag.endswith("}t") else " " * each.tag.endswith(_BETWEEN)
            for each in paragraph.iter()
        )
        for paragraph in paragraphs
        if not any(each.tag.endswith("}p") for each in list(paragraph.iter())[1:])
    )


def references():
    """The other program for each kind of file."""
    found = {".docx": words_in_xml, ".pptx": words_in_xml}
    if shutil.which("pdftotext"):
        found[".pdf"] = words_by_pdftotext
    if find_spec("docx"):
        found[".docx"] = words_by_python_docx
    if find_spec("python_calamine"):
        found[".xlsx"] = words_by_calamine
    return found


def measure(path, tally, reference):
    start = time.perf_counter()
    try:
        document = read_document(path)
    except Problem as problem:
        tally.problems += 1
        tally.lines.append(f"{path}: {problem}")
        return
    finally:
        tally.seconds += time.perf_counter() - start
    tally.read += 1
    try:
        expected = Counter(_WORD.findall((reference or (lambda _: ""))(path).lower()))
    except Exception as error:  # other people's programs, on other people's files
        tally.lines.append(f"{path}: {error!r} in the other program")
        return
    tally.compared += reference is not None
    lost = expected - Counter(_WORD.findall(document.text.lower()))
    tally.words += expected.total()
    tally.lost += lost.total()
    if lost:
        tally.lines.append(f"{path}: {lost.total()} lost: {' '.join(sorted(lost)[:12])}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--files", action="store_true", help="a line for each file with losses")
    options = parser.parse_args()
    compared_with = references()
    tallies = defaultdict(Tally)
    for path in sorted(options.folder.rglob("*")):
        kind = path.suffix.lower()
        if _SUFFIXES.fullmatch(kind) and path.is_file():
            measure(path, tallies[kind], compared_with.get(kind))
    print("kind        read  problems  seconds  compared     words      lost")
    for kind, tally in sorted(tallies.items()):
        share = f"{tally.lost / tally.words:.2%}" if tally.words else ""
        print(
            f"{kind:10}{tally.read:6}{tally.problems:10}{tally.seconds:9.1f}{tally.compared:10}"
            f"{tally.words:10}{tally.lost:8} {share}"
        )
    for tally in tallies.values() if options.files else ():
        print(*tally.lines, sep="\n")


if __name__ == "__main__":
    main()
