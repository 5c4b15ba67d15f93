"""What a Mach-O file says of itself: architecture, oldest system, libraries, imports, signature.

Knows the container alone: headers, load commands, symbol tables, how to take one architecture out
of a universal binary, and how to make room for a signature. Knows nothing of bundles, and not what
a signature holds (see code_signature).

Sources: Apple's <mach-o/loader.h>, <mach-o/fat.h>, <mach-o/nlist.h> and <mach-o/fixup-chains.h>.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MAGIC_64 = b"\xcf\xfa\xed\xfe"  # little-endian, 64 bits: every Mac since 2006
MAGICS = (
    MAGIC_64,
    b"\xce\xfa\xed\xfe",  # 32 bits
    b"\xfe\xed\xfa\xcf",  # big-endian
    b"\xfe\xed\xfa\xce",
    b"\xca\xfe\xba\xbe",  # several architectures in one file
    b"\xca\xfe\xba\xbf",
)
ARM64 = 0x0100000C
EXECUTE = 2  # MH_EXECUTE, as file_type

_CPU_NAMES = {ARM64: "arm64", 0x01000007: "x86_64", 7: "i386", 0x0200000C: "arm64_32"}
_FAT = {
    b"\xca\xfe\xba\xbe": struct.Struct(">I4xII4x"),
    b"\xca\xfe\xba\xbf": struct.Struct(">I4xQQ8x"),
}
_MOST_SLICES = 30  # a Java class begins with the same four bytes, and a version from 45 on
_SEGMENT_64, _SYMTAB, _CODE_SIGNATURE, _BUILD_VERSION = 0x19, 0x2, 0x1D, 0x32
_RPATH, _CHAINED_FIXUPS, _VERSION_MIN_MACOSX = 0x8000001C, 0x80000034, 0x24
_LOAD_WEAK_DYLIB, _REEXPORT_DYLIB = 0x80000018, 0x8000001F
_EXPORTS_TRIE, _DYLD_INFO = 0x80000033, {0x22, 0x80000022}
_LIBRARIES = {
    0xC,
    _LOAD_WEAK_DYLIB,
    _REEXPORT_DYLIB,
    0x20,
    0x80000023,
}  # load, re-export, lazy, upward
_MACOS = 1
_HEADER_BYTES = 32
_CODE_SIGNATURE_COMMAND_BYTES = 16
_PAGE_BYTES = 0x4000  # of arm64

type Version = tuple[int, int, int]


class MachoError(ValueError):
    """The bytes are no Mach-O file, or one that is damaged."""


@dataclass(frozen=True)
class Library:
    """A library that the file wants: the name as written, and whether it may be missing.

    `reexported`: its symbols count as the file's own.
    """

    name: str
    weak: bool
    reexported: bool = False


@dataclass(frozen=True)
class Import:
    """A symbol that another file must have; `library` is its name as written, "" where unsaid."""

    symbol: str
    library: str
    weak: bool


@dataclass(frozen=True)
class Segment:
    """Where a segment lies in the file, and where its load command does. All in bytes."""

    name: str
    file_offset: int
    file_bytes: int
    command_offset: int


@dataclass(frozen=True)
class Macho:
    """One architecture's image, as its load commands describe it.

    minimum_macos and sdk are None where the file names none or is for another system;
    signature_offset and signature_bytes are both 0 where it is not signed.
    """

    architecture: str
    file_type: int
    minimum_macos: Version | None
    sdk: Version | None
    libraries: tuple[Library, ...]
    rpaths: tuple[str, ...]
    imports: tuple[Import, ...]
    exports: frozenset[str]
    segments: tuple[Segment, ...]
    signature_offset: int
    signature_bytes: int
    signature_command_offset: int

    def segment(self, name: str) -> Segment:
        """The segment of that name. Raises MachoError if there is none."""
        for segment in self.segments:
            if segment.name == name:
                return segment
        raise MachoError(f"no {name} segment")


def is_macho(path: Path) -> bool:
    """Whether the regular file at `path` is a Mach-O one, of one architecture or several."""
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        start = file.read(8)
    if start[:4] in _FAT:
        return _announced(start) > 0
    return start[:4] in MAGICS


def architectures(data: bytes) -> tuple[str, ...]:
    """The architectures in a Mach-O file, in its order. Raises MachoError if it is none."""
    try:
        if count := _announced(data):
            found = tuple(_cpu_name(cpu) for cpu, _, _ in _slices(data))
            if len(found) == count:
                return found
            raise MachoError("the file ends within its header")
        if data[:4] == MAGIC_64:
            return (_cpu_name(struct.unpack_from("<I", data, 4)[0]),)
    except struct.error as error:
        raise MachoError("the file ends within its header") from error
    if data[:4] in MAGICS:
        return ("32 bits or big-endian",)
    raise MachoError("not a Mach-O file")


def thin(data: bytes, architecture: str) -> bytes:
    """The image for `architecture`, byte for byte; data that is no universal binary stays.

    Raises MachoError where a universal binary has no such image, or is cut off.
    """
    if not _announced(data):
        return data
    for cpu, offset, size_bytes in _slices(data):
        if _cpu_name(cpu) == architecture and offset + size_bytes <= len(data):
            return data[offset : offset + size_bytes]
    raise MachoError(f"A universal binary has no whole part for {architecture}.")


def read(data: bytes) -> Macho:
    """What the load commands of a 64-bit image of one architecture say.

    Raises MachoError for anything else, and where offsets lead outside the file.
    """
    if data[:4] != MAGIC_64:
        raise MachoError(f"not a 64-bit Mach-O file of one architecture: {architectures(data)}")
    try:
        return _read(data)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise MachoError(f"damaged Mach-O file: {error}") from error


def with_room_for_signature(data: bytes, signature_bytes: int) -> bytes:
    """The image up to where a signature of `signature_bytes` begins, with the commands that say so.

    An older signature is cut off; the caller appends the new one. Raises MachoError where there
    is no __LINKEDIT segment, or no place for the load command.
    """
    image = read(data)
    linkedit = image.segment("__LINKEDIT")
    end = image.signature_offset or (linkedit.file_offset + linkedit.file_bytes + 15 & ~15)
    changed = bytearray(data[: image.signature_offset or len(data)].ljust(end, b"\0"))
    command_offset = image.signature_command_offset or _add_signature_command(changed, image)
    struct.pack_into("<II", changed, command_offset + 8, end, signature_bytes)
    linkedit_bytes = end + signature_bytes - linkedit.file_offset
    memory_bytes = (linkedit_bytes + _PAGE_BYTES - 1) & ~(_PAGE_BYTES - 1)
    struct.pack_into("<Q", changed, linkedit.command_offset + 32, memory_bytes)
    struct.pack_into("<Q", changed, linkedit.command_offset + 48, linkedit_bytes)
    return bytes(changed)


def _add_signature_command(changed: bytearray, image: Macho) -> int:
    """Writes LC_CODE_SIGNATURE after the last load command; where it lies."""
    count, commands_bytes = struct.unpack_from("<II", changed, 16)
    offset = _HEADER_BYTES + int(commands_bytes)
    after = offset + _CODE_SIGNATURE_COMMAND_BYTES
    if after > _first_section(changed, image) or any(changed[offset:after]):
        raise MachoError("no room for a signature's load command")
    struct.pack_into("<II", changed, offset, _CODE_SIGNATURE, _CODE_SIGNATURE_COMMAND_BYTES)
    struct.pack_into("<II", changed, 16, count + 1, commands_bytes + _CODE_SIGNATURE_COMMAND_BYTES)
    return offset


def _first_section(data: bytearray, image: Macho) -> int:
    """Where the first section's bytes begin in the file: load commands may grow up to there."""
    text = image.segment("__TEXT")
    (sections,) = struct.unpack_from("<I", data, text.command_offset + 64)
    offsets = [
        struct.unpack_from("<I", data, text.command_offset + 72 + 80 * index + 48)[0]
        for index in range(sections)
    ]
    return min((offset for offset in offsets if offset), default=text.file_bytes)


def _announced(data: bytes) -> int:
    """How many images a universal binary says it has; 0 where the file is none."""
    count = int.from_bytes(data[4:8], "big") if len(data) >= 8 else 0
    return count if data[:4] in _FAT and count <= _MOST_SLICES else 0


def _slices(data: bytes) -> Iterator[tuple[int, int, int]]:
    """CPU type, offset and size in bytes of each image that a universal binary lists in full."""
    entry = _FAT[data[:4]]
    table = data[8 : 8 + _announced(data) * entry.size]
    return entry.iter_unpack(table[: len(table) // entry.size * entry.size])


def _commands(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Number, offset and size in bytes of each load command."""
    (count,) = struct.unpack_from("<I", data, 16)
    offset = _HEADER_BYTES
    for _ in range(count):
        command, size_bytes = struct.unpack_from("<II", data, offset)
        if size_bytes < 8 or offset + size_bytes > len(data):
            raise MachoError("a load command of no sensible size")
        yield command, offset, size_bytes
        offset += size_bytes


def _read(data: bytes) -> Macho:
    cpu, _, file_type = struct.unpack_from("<III", data, 4)
    minimum_macos: Version | None = None
    sdk: Version | None = None
    libraries: list[Library] = []
    rpaths: list[str] = []
    imports: list[Import] = []
    exports: set[str] = set()
    segments: list[Segment] = []
    signature = (0, 0, 0)
    tables: list[tuple[int, int]] = []
    for command, offset, size_bytes in _commands(data):
        if command == _SEGMENT_64:
            name, file_offset, file_bytes = struct.unpack_from("<16s16xQQ", data, offset + 8)
            segments.append(Segment(_text(name), file_offset, file_bytes, offset))
        elif command in _LIBRARIES:
            name = _string_in(data, offset, size_bytes)
            weak, reexported = command == _LOAD_WEAK_DYLIB, command == _REEXPORT_DYLIB
            libraries.append(Library(name, weak, reexported))
        elif command == _RPATH:
            rpaths.append(_string_in(data, offset, size_bytes))
        elif command == _BUILD_VERSION:
            platform, oldest, newest = struct.unpack_from("<III", data, offset + 8)
            if platform == _MACOS:
                minimum_macos, sdk = _version(oldest), _version(newest)
        elif command == _VERSION_MIN_MACOSX:
            oldest, newest = struct.unpack_from("<II", data, offset + 8)
            minimum_macos, sdk = _version(oldest), _version(newest)
        elif command == _CODE_SIGNATURE:
            signature = (*struct.unpack_from("<II", data, offset + 8), offset)
        elif command in (_SYMTAB, _CHAINED_FIXUPS):
            tables.append((command, offset))
        elif command == _EXPORTS_TRIE:
            exports |= _exports(data, *struct.unpack_from("<II", data, offset + 8))
        elif command in _DYLD_INFO:
            exports |= _exports(data, *struct.unpack_from("<II", data, offset + 40))
    for command, offset in tables:  # last, as both name libraries by their number
        found = _symbol_table if command == _SYMTAB else _chained_imports
        imports += found(data, offset, libraries)
    return Macho(
        architecture=_cpu_name(cpu),
        file_type=file_type,
        minimum_macos=minimum_macos,
        sdk=sdk,
        libraries=tuple(libraries),
        rpaths=tuple(rpaths),
        imports=tuple(dict.fromkeys(imports)),
        exports=frozenset(exports),
        segments=tuple(segments),
        signature_offset=signature[0],
        signature_bytes=signature[1],
        signature_command_offset=signature[2],
    )


def _symbol_table(data: bytes, command: int, libraries: list[Library]) -> Iterator[Import]:
    """The undefined external symbols of LC_SYMTAB; the library's number is n_desc's high byte."""
    symbols, count, strings, strings_bytes = struct.unpack_from("<IIII", data, command + 8)
    table = data[strings : strings + strings_bytes]
    for name, kind, section, description in struct.iter_unpack(
        "<IBBh8x", data[symbols : symbols + 16 * count]
    ):
        external, undefined = kind & 0x01, kind & 0x0E == 0
        if kind & 0xE0 or not (external and undefined) or section:
            continue
        ordinal, weak = description >> 8 & 0xFF, bool(description & 0x40)
        yield Import(_name_at(table, name), _library(libraries, ordinal), weak)


def _chained_imports(data: bytes, command: int, libraries: list[Library]) -> Iterator[Import]:
    """The imports that LC_DYLD_CHAINED_FIXUPS lists: what dyld itself binds."""
    start, _ = struct.unpack_from("<II", data, command + 8)
    _, _, imports, symbols, count, layout, packed = struct.unpack_from("<7I", data, start)
    if packed:
        raise MachoError("compressed symbol names")
    entry_bytes = {1: 4, 2: 8, 3: 16}.get(layout)
    if entry_bytes is None:
        raise MachoError(f"unknown layout {layout} of imports")
    for index in range(count):
        at = start + imports + entry_bytes * index
        if layout == 3:
            (entry,) = struct.unpack_from("<Q", data, at)
            ordinal, weak, name = entry & 0xFFFF, entry >> 16 & 1, entry >> 32
        else:
            (entry,) = struct.unpack_from("<I", data, at)
            ordinal, weak, name = entry & 0xFF, entry >> 8 & 1, entry >> 9
        symbol = _name_at(data, start + symbols + name)
        yield Import(symbol, _library(libraries, ordinal), bool(weak))


def _exports(data: bytes, start: int, size_bytes: int) -> set[str]:
    """The names in an export trie: each node ends a name or not, and leads on by pieces of one."""
    trie = data[start : start + size_bytes]
    names: set[str] = set()
    seen: set[int] = set()
    waiting = [(0, b"")] if trie else []
    while waiting:
        place, name = waiting.pop()
        if place in seen:
            raise MachoError("the exports lead in a circle")
        seen.add(place)
        payload_bytes, place = _uleb128(trie, place)
        if payload_bytes:
            names.add(name.decode())
        place += payload_bytes
        children, place = trie[place], place + 1
        for _ in range(children):
            end = trie.find(b"\0", place)
            if end < 0:
                raise MachoError("a name reaches beyond the exports")
            child, after = _uleb128(trie, end + 1)
            waiting.append((child, name + trie[place:end]))
            place = after
    return names


def _uleb128(data: bytes, place: int) -> tuple[int, int]:
    """A number in groups of seven bits, the lowest first, and where it ends."""
    value = shift = 0
    while True:
        byte = data[place]
        value |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:
            return value, place


def _library(libraries: list[Library], ordinal: int) -> str:
    """Libraries are numbered from 1; 0 is the file itself, the highest mean "look anywhere"."""
    return libraries[ordinal - 1].name if 0 < ordinal <= len(libraries) else ""


def _string_in(data: bytes, offset: int, size_bytes: int) -> str:
    """The string of a load command, whose first field says where in the command it begins."""
    (begin,) = struct.unpack_from("<I", data, offset + 8)
    return _text(data[offset + begin : offset + size_bytes])


def _text(padded: bytes) -> str:
    return padded.partition(b"\0")[0].decode()


def _name_at(data: bytes, offset: int) -> str:
    end = data.find(b"\0", offset)
    if end < 0:
        raise MachoError("a name reaches beyond the file")
    return data[offset:end].decode()


def _version(packed: int) -> Version:
    return packed >> 16, packed >> 8 & 0xFF, packed & 0xFF


def _cpu_name(cpu: int) -> str:
    return _CPU_NAMES.get(cpu, f"CPU type {cpu:#x}")
