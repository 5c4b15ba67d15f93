"""What leads MLX's Linux wheel to OpenBLAS: for both machines, and what its source gives."""

import importlib.util

import lief
import pytest

from cblas import MACHINES, SHIMS, make_shims

NUMBERS = {"x86_64": 62, "aarch64": 183}  # elf.h: EM_X86_64, EM_AARCH64
CALLED = {"cblas_sgemm", "cblas_dgemm", "cblas_cgemm"}
FILLED_IN = {
    f"slipstream_{name}" for name in ("sgemm", "dgemm", "cgemm", "row_differs", "few_rows_threads")
}
ASKED = {f"slipstream_{name}" for name in ("few_rows_agree", "keep_narrow", "forget_narrow")}
NOTED = {"slipstream_upper_halves", "slipstream_note_upper_halves"}  # of x86-64 alone
NEEDED = {"x86_64": {"libc.so.6", "libpthread.so.0"}, "aarch64": {"libc.so.6"}}
MOST_BYTES = {"x86_64": 13_500, "aarch64": 8_000}


@pytest.mark.parametrize("machine", MACHINES)
def test_a_library_for_each_machine(machine):
    path = SHIMS / f"{machine}.so"
    assert {each.stem for each in SHIMS.iterdir()} == {*MACHINES}
    assert path.stat().st_size < MOST_BYTES[machine]
    library = lief.ELF.parse(str(path))
    assert library.header.file_type == lief.ELF.Header.FILE_TYPE.DYN
    assert library.header.machine_type.value == NUMBERS[machine]
    assert set(library.libraries) == NEEDED[machine]
    names = CALLED | FILLED_IN | ASKED | (NOTED if machine == "x86_64" else set())
    assert {symbol.name for symbol in library.exported_symbols} == names
    assert library.has_nx  # its stack may not be run


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
