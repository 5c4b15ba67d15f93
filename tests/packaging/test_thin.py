"""One architecture out of a universal binary."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from thin import thin

from tests.packaging.tiny_wheel import ARM64, X86_64, universal


@given(intel=st.binary(), arm=st.binary())
def test_the_part_that_is_asked_for(intel: bytes, arm: bytes):
    data = universal({X86_64: intel, ARM64: arm})
    assert thin(data, "arm64") == arm
    assert thin(data, "x86_64") == intel


def test_the_wide_form():
    head = struct.pack(">II", 0xCAFEBABF, 1) + struct.pack(">IIQQII", ARM64, 0, 40, 3, 0, 0)
    assert thin(head + b"arm", "arm64") == b"arm"


@given(st.binary().filter(lambda data: data[:4] not in (b"\xca\xfe\xba\xbe", b"\xca\xfe\xba\xbf")))
def test_anything_else_stays(data: bytes):
    assert thin(data, "arm64") == data


def test_a_java_class_stays():
    data = struct.pack(">II", 0xCAFEBABE, 0x41) + bytes(100)
    assert thin(data, "arm64") == data


def test_no_such_part():
    with pytest.raises(ValueError, match="arm64"):
        thin(universal({X86_64: b"intel"}), "arm64")


@given(st.integers(min_value=8))
def test_a_part_that_is_cut_off(length: int):
    data = universal({ARM64: b"whole"})
    with pytest.raises(ValueError, match="arm64"):
        thin(data[: min(length, len(data) - 1)], "arm64")
