"""What leads MLX's Linux wheel to OpenBLAS: for both machines, and what its source gives."""

import importlib.util
import struct
from dataclasses import dataclass

import pytest

from cblas import MACHINES, SHIMS, make_shims
from configuration import read_configuration

NUMBERS = {"x86_64": 62, "aarch64": 183}  # elf.h: EM_X86_64, EM_AARCH64
CALLED = {"cblas_sgemm", "cblas_dgemm", "cblas_cgemm"}
FILLED_IN = {
    f"slipstream_{name}" for name in ("sgemm", "dgemm", "cgemm", "row_differs", "few_rows_threads")
}
ASKED = {f"slipstream_{name}" for name in ("few_rows_agree", "keep_narrow", "forget_narrow")}
NOTED = {"slipstream_upper_halves", "slipstream_note_upper_halves"}  # of x86-64 alone
NEEDED = {"x86_64": {"libc.so.6", "libpthread.so.0"}, "aarch64": {"libc.so.6"}}
MOST_BYTES = {"x86_64": 13_500, "aarch64": 8_000}


@dataclass(frozen=True)
class Library:
    """Of an ELF file: its machine, what it needs, what it defines, whether its stack may be run."""

    machine: int
    needed: set[str]
    defined: set[str]
    runs_stack: bool


def read_library(data):
    """By the System V ABI's chapters 4 and 5; 64 bits, little endian."""
    magic, kind, machine = struct.unpack_from("<6s10xHH", data)
    assert (magic, kind) == (b"\x7fELF\x02\x01", 3)  # a shared object
    start, size, count = struct.unpack_from("<Q14xHH", data, 32)
    segments = [struct.unpack_from("<IIQQQQ", data, start + i * size) for i in range(count)]

    def at(address):
        """Where in the file that lies."""
        return next(
            offset + address - place
            for type_, _, offset, place, _, length in segments
            if type_ == 1 and place <= address < place + length
        )

    (dynamic,) = (offset for type_, _, offset, *_ in segments if type_ == 2)
    entries = []
    while not entries or entries[-1][0]:
        entries.append(struct.unpack_from("<qQ", data, dynamic + 16 * len(entries)))
    tags = dict(entries)
    texts, symbols = at(tags[5]), at(tags[6])

    def text(offset):
        begin = texts + offset
        return data[begin : data.index(b"\0", begin)].decode()

    (number,) = struct.unpack_from("<4xI", data, at(tags[4]))  # of chains: one for each symbol
    table = [struct.unpack_from("<IBBH", data, symbols + 24 * i) for i in range(number)]
    return Library(
        machine=machine,
        needed={text(value) for tag, value in entries if tag == 1},
        defined={text(name) for name, _, _, section in table if section},
        runs_stack=any(type_ == 0x6474E551 and flags & 1 for type_, flags, *_ in segments),
    )


@pytest.mark.parametrize("machine", MACHINES)
def test_a_library_for_each_machine(machine):
    data = (SHIMS / f"{machine}.so").read_bytes()
    assert len(data) < MOST_BYTES[machine]
    assert read_library(data) == Library(
        machine=NUMBERS[machine],
        needed=NEEDED[machine],
        defined=CALLED | FILLED_IN | ASKED | (NOTED if machine == "x86_64" else set()),
        runs_stack=False,
    )


def test_nothing_else_lies_there():
    assert {path.name for path in SHIMS.iterdir()} == {f"{machine}.so" for machine in MACHINES}


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("ziglang") is None, reason="needs ziglang: pip install '.[packaging]'"
)
def test_they_are_what_the_source_gives(tmp_path):
    make_shims(tmp_path)
    for machine in MACHINES:
        made, kept = ((folder / f"{machine}.so").read_bytes() for folder in (tmp_path, SHIMS))
        assert made == kept, "run: python packaging/cblas.py"
        assert str(tmp_path).encode() not in made


def test_a_mac_gets_none():
    prune = read_configuration().prune
    name = "resources/blas/x86_64.so"
    assert prune.excluded("own", "own_for_mac")(name)
    assert not prune.excluded("own")(name)  # the twin does
