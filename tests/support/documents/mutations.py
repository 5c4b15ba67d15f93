"""Files that were right, and are broken: read one after the other in a process that may do little.

`python -m tests.support.documents.mutations COUNT KIND...` reads as many of each and prints what
came of them. What is neither read nor a `Problem` ends it, and so does a file that takes too
long; the last number on standard error says which one it was.
"""

import faulthandler
import json
import random
import re
import struct
import sys
import zlib
from collections import Counter
from itertools import chain, product

from engine.documents.child import read_bytes
from engine.documents.confine import confine
from engine.documents.limits import LONG_PIXELS, PICTURE_SIDE, Effort
from engine.documents.pdf import draw_page
from engine.documents.picture import read_picture
from models.errors import Problem
from tests.support.documents.office import parts_of, zipped
from tests.support.documents.pictures import samples as pictures
from tests.support.documents.samples import OFFICE_SAMPLES, SAMPLES

PICTURES = ("png", "jpeg", "webp", "gif", "bmp", "tiff")
SECONDS_EACH = 20.0
_LONGEST_MESSAGE = 400
_NUMBERS = (b"0", b"-1", b"1e9", b"2147483648", b"99999999999999999999", b".0001", b"255")
_ODD = (b"\0", b"\xff\xfe", b"\xe2\x80\xae", b'"', b"\n" * 500)
_ODD += tuple(each * 5000 for each in (b"[", b"{", b"("))
_WORDS = (  # and others in their places, or those that are there: objects in circles
    (rb"-?\d+(\.\d+)?", _NUMBERS),
    (rb"\d+ 0 R", ()),
    (rb'/\w+|"\w+"', ()),
)


def files_of(kind):
    """The names and bytes of all samples of this kind."""
    plain = [(each.name, each.data) for each in SAMPLES if each.format == kind]
    if kind in PICTURES:
        return [(f"{number}.{kind}", data) for number, data in enumerate(pictures()[kind])]
    office = [(each.name, each.data) for each in OFFICE_SAMPLES.values()]
    return plain + [each for each in office if each[0].endswith(f".{kind}")]


def mutated(name, data, number):
    """The same for the same number; half of the zips are whole ones, with a broken part, and half
    of the PNGs have right checksums."""
    chance = random.Random(f"{name} {number}")
    if data.startswith(b"PK") and chance.random() < 0.5:
        parts = parts_of(data)
        hit = chance.choice(sorted(parts))
        return zipped({**parts, hit: edited(parts[hit], chance)})
    if name.endswith(".png") and chance.random() < 0.5:
        return _with_checksums(edited(data, chance))
    return edited(data, chance)


def _with_checksums(png):
    """The chunks of a PNG up to the first that is too long."""
    data, place = bytearray(png), 8
    while place + 12 <= len(data):
        end = place + 8 + struct.unpack_from(">I", data, place)[0]
        if end + 4 > len(data):
            break
        struct.pack_into(">I", data, end, zlib.crc32(data[place + 4 : end]))
        place = end + 4
    return bytes(data)


def edited(data, chance):
    for _ in range(chance.randint(1, 6)):
        data = _edited_once(data, chance)
    return data


def _edited_once(data, chance):
    start, place = (chance.randrange(len(data) + 1) for _ in range(2))
    before, after = data[:place], data[place:]
    match chance.randrange(5 + len(_WORDS)):
        case 0:
            return before + bytes([chance.randrange(256)]) + after[1:]
        case 1:
            return before if chance.random() < 0.3 else data
        case 2:
            return before + after[chance.randint(1, 60) :]
        case 3:
            return before + data[start : start + chance.randint(1, 400)] + after
        case 4:
            return before + chance.choice(_ODD) + after
        case number:
            pattern, others = _WORDS[number - 5]
            if not (found := list(re.finditer(pattern, data))):
                return data
            old, new = chance.choice(found), chance.choice(others or [each[0] for each in found])
            return data[: old.start()] + new + data[old.end() :]


def read(name, data, number):
    """ "read" or "problem"."""
    try:
        if name.endswith(PICTURES):
            _judge_picture(read_picture(data))
            return "read"
        document = read_bytes(name, data)
        _judge(document)
        if document.format == "pdf" and document.sections and number % 4 == 0:
            shown = document.sections[0]
            draw_page(data, shown.number, spans=[(0, len(shown.text)), (3, 1 << 40)], width=300)
    except Problem as problem:
        _judge_problem(problem)
        return "problem"
    return "read"


def _judge_picture(read):
    assert 0 < max(read.width, read.height) <= PICTURE_SIDE
    assert read.width * read.height <= LONG_PIXELS
    assert len(read.rgb) == 3 * read.width * read.height


def _judge_problem(problem):
    """It can be shown to the user."""
    assert problem.message.isprintable(), ascii(problem.message)
    assert len(problem.message) < _LONGEST_MESSAGE, problem.message
    assert problem.remedy


def _judge(document):
    assert document.sections or document.without_text  # pages as pictures, or without letters
    assert all(section.text.strip() for section in document.sections)
    document.to_json().encode()


def main(count, kinds):
    files = {kind: files_of(kind) for kind in kinds}
    for name, data in chain(*files.values()):  # right ones are read, and load what is loaded late
        assert read(name, data, 0) == "read"
    confine(Effort(seconds=600.0, memory_bytes=1_500_000_000))
    came = {kind: Counter() for kind in kinds}
    for kind, number in product(kinds, range(count)):
        print(kind, number, file=sys.stderr)
        name, data = files[kind][number % len(files[kind])]
        faulthandler.dump_traceback_later(SECONDS_EACH, exit=True)
        came[kind][read(name, mutated(name, data, number), number)] += 1
    faulthandler.cancel_dump_traceback_later()
    print(json.dumps(came))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
