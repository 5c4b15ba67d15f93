"""Universal binaries: the part of one architecture, with the signature it came with.

Source: mach-o/fat.h, big-endian: magic, count, then CPU type, subtype, offset, size and alignment
for each architecture (the 64-bit form has wider offsets and sizes).
"""

import struct

_FAT, _FAT_64 = 0xCAFEBABE, 0xCAFEBABF
_CPU_TYPES = {"arm64": 0x0100000C, "x86_64": 0x01000007}
_MOST_ARCHITECTURES = 16  # a Java class has the same magic, and a larger number there


def thin(data: bytes, architecture: str) -> bytes:
    """The part for `architecture`; data that is no universal binary comes back as it is.

    Raises ValueError where a universal binary has no such part, or is cut off.
    """
    if len(data) < 8:
        return data
    magic, count = struct.unpack_from(">II", data)
    if magic not in (_FAT, _FAT_64) or not 0 < count <= _MOST_ARCHITECTURES:
        return data
    entry = struct.Struct(">IIIII" if magic == _FAT else ">IIQQII")
    for index in range(count):
        if 8 + (index + 1) * entry.size > len(data):
            break
        cpu_type, _, offset, size, *_ = entry.unpack_from(data, 8 + index * entry.size)
        if cpu_type == _CPU_TYPES[architecture]:
            if offset + size > len(data):
                break
            return data[offset : offset + size]
    raise ValueError(f"A universal binary has no whole part for {architecture}.")
