"""Reads a Mach-O file: architecture, oldest system, libraries, imports, signature.

Knows the container only. LIEF reads a damaged file as far as it can. So its results are counted
against the file's own numbers, and a file in which a fault could hide is refused. Exports are not
counted: a missing export makes `verify` find more, never less.

Two changes are made by hand, as LIEF rewrites the whole file, and signatures hold for the
original bytes: taking one architecture out of a universal binary, and making room for a signature.
Knows nothing of bundles, nor of the content of a signature (see code_signature).

Sources: Apple's <mach-o/loader.h>, <mach-o/fat.h>, <mach-o/nlist.h> and <mach-o/fixup-chains.h>.
"""

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import lief
from lief import MachO

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
_COMMANDS = MachO.LoadCommand.TYPE
_MACOS = (1).to_bytes(4, "little")  # PLATFORM_MACOS, as LC_BUILD_VERSION has it
_CODE_SIGNATURE = 0x1D
_FIXUPS = struct.Struct("<16xIII")  # dyld_chained_fixups_header, from imports_count on
_IMPORT_LAYOUTS, _PLAIN_IMPORTS = (1, 2, 3), 1  # the others list a symbol once for each addend
_HEADER_BYTES = 32
_CODE_SIGNATURE_COMMAND_BYTES = 16
_PAGE_BYTES = 0x4000  # of arm64

type Version = tuple[int, int, int]


class MachoError(ValueError):
    """The bytes are not a Mach-O file, or a damaged one."""


@dataclass(frozen=True)
class LinkedLibrary:
    """A library that the file loads: its name as written, and whether it may be missing.

    `reexported`: its symbols count as the file's own.
    """

    name: str
    weak: bool
    reexported: bool = False


@dataclass(frozen=True)
class Import:
    """A symbol that another file must have; `library` is that file's name, or "" for any."""

    symbol: str
    library: str
    weak: bool


@dataclass(frozen=True)
class Segment:
    """The places, in bytes, of a segment and of its load command in the file."""

    name: str
    file_offset: int
    file_bytes: int
    command_offset: int


@dataclass(frozen=True)
class Macho:
    """One architecture's image, as its load commands describe it.

    minimum_macos and sdk are None if the file lacks them or is for another system;
    signature_offset and signature_bytes are both 0 if it is not signed. spare_bytes: the bytes by
    which the load commands may grow.
    """

    architecture: str
    file_type: int
    minimum_macos: Version | None
    sdk: Version | None
    libraries: tuple[LinkedLibrary, ...]
    rpaths: tuple[str, ...]
    imports: tuple[Import, ...]
    exports: frozenset[str]
    segments: tuple[Segment, ...]
    spare_bytes: int
    signature_offset: int
    signature_bytes: int
    signature_command_offset: int

    def segment(self, name: str) -> Segment:
        """The segment with that name. Raises MachoError if there is none."""
        for segment in self.segments:
            if segment.name == name:
                return segment
        raise MachoError(f"no {name} segment")


def is_macho(path: Path) -> bool:
    """Whether the regular file at `path` is a Mach-O file, of one architecture or several."""
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        start = file.read(8)
    if start[:4] in _FAT:
        return _announced(start) > 0
    return start[:4] in MAGICS


def is_program(data: bytes) -> bool:
    """Whether a 64-bit image of one architecture is a program, not a library or a module."""
    return data[:4] == MAGIC_64 and data[12:16] == EXECUTE.to_bytes(4, "little")


def architectures(data: bytes) -> tuple[str, ...]:
    """The architectures in a Mach-O file, in its order. Raises MachoError for other files."""
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
    """The image for `architecture`, byte for byte; other data is returned as it is.

    Raises MachoError if a universal binary has no such image, or is cut off.
    """
    if not _announced(data):
        return data
    for cpu, offset, size_bytes in _slices(data):
        if _cpu_name(cpu) == architecture and offset + size_bytes <= len(data):
            return data[offset : offset + size_bytes]
    raise MachoError(f"A universal binary has no whole part for {architecture}.")


def read(data: bytes) -> Macho:
    """Read the load commands of a 64-bit image of one architecture.

    Raises MachoError for anything else, and for offsets that lead outside the file.
    """
    with _opened(data) as image:
        cpu, _, file_type = struct.unpack_from("<III", data, 4)
        libraries = tuple(
            LinkedLibrary(
                _text(command.name),
                weak=command.command == _COMMANDS.LOAD_WEAK_DYLIB,
                reexported=command.command == _COMMANDS.REEXPORT_DYLIB,
            )
            for command in image.libraries
            if command.command != _COMMANDS.ID_DYLIB  # the file's own name
        )
        minimum_macos, sdk = _systems(image)
        signature = image.code_signature
        return Macho(
            architecture=_cpu_name(cpu),
            file_type=file_type,
            minimum_macos=minimum_macos,
            sdk=sdk,
            libraries=libraries,
            rpaths=tuple(_text(command.path) for command in image.rpaths),
            imports=tuple(dict.fromkeys(_imports(image, libraries))),
            exports=frozenset(_exports(image)),
            segments=tuple(
                Segment(_text(part.name), part.file_offset, part.file_size, part.command_offset)
                for part in image.segments
            ),
            spare_bytes=image.available_command_space,
            signature_offset=signature.data_offset if signature else 0,
            signature_bytes=signature.data_size if signature else 0,
            signature_command_offset=signature.command_offset if signature else 0,
        )


def without_newer_sdk(data: bytes) -> bytes:
    """Return the image with its oldest system named as its SDK, too. Raises MachoError as `read`
    does."""
    with _opened(data) as image:
        if image.build_version is None:
            return data
        oldest = image.build_version.command_offset + 12
    return data[: oldest + 4] + data[oldest : oldest + 4] + data[oldest + 8 :]


def with_room_for_signature(data: bytes, signature_bytes: int) -> bytes:
    """Return the image up to a signature of `signature_bytes`, with load commands that announce it.

    An older signature is cut off; the caller appends the new one. Raises MachoError without a
    __LINKEDIT segment, or no place for the load command.
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
    """Write LC_CODE_SIGNATURE after the last load command; return its offset."""
    count, commands_bytes = struct.unpack_from("<II", changed, 16)
    offset = _HEADER_BYTES + int(commands_bytes)
    after = offset + _CODE_SIGNATURE_COMMAND_BYTES
    if image.spare_bytes < _CODE_SIGNATURE_COMMAND_BYTES or any(changed[offset:after]):
        raise MachoError("no room for a signature's load command")
    struct.pack_into("<II", changed, offset, _CODE_SIGNATURE, _CODE_SIGNATURE_COMMAND_BYTES)
    struct.pack_into("<II", changed, 16, count + 1, commands_bytes + _CODE_SIGNATURE_COMMAND_BYTES)
    return offset


def _announced(data: bytes) -> int:
    """The number of images that a universal binary claims; 0 for another file."""
    count = int.from_bytes(data[4:8], "big") if len(data) >= 8 else 0
    return count if data[:4] in _FAT and count <= _MOST_SLICES else 0


def _slices(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield (CPU type, offset, bytes) of each image that a universal binary lists in full."""
    entry = _FAT[data[:4]]
    table = data[8 : 8 + _announced(data) * entry.size]
    return entry.iter_unpack(table[: len(table) // entry.size * entry.size])


@contextmanager
def _opened(data: bytes) -> Iterator[MachO.Binary]:
    """LIEF's view of a 64-bit image of one architecture. Its parts are valid inside the block."""
    if data[:4] != MAGIC_64:
        raise MachoError(f"not a 64-bit Mach-O file of one architecture: {architectures(data)}")
    if len(data) < _HEADER_BYTES:  # LIEF would read so few bytes as the name of a file
        raise MachoError("damaged Mach-O file: it ends within its header")
    config = MachO.ParserConfig()
    config.parse_dyld_bindings = config.parse_dyld_rebases = False
    with lief.logging.level_scope(lief.logging.LEVEL.OFF):
        found = MachO.parse(data, config)
        image = found.at(0) if found is not None else None
        if image is None:
            raise MachoError("damaged Mach-O file: it cannot be read")
        try:
            _check_that_all_was_read(data, image)
            yield image
        except UnicodeDecodeError as error:
            raise MachoError(f"damaged Mach-O file: {error}") from error


def _check_that_all_was_read(data: bytes, image: MachO.Binary) -> None:
    """Raise MachoError if LIEF left something out, which only its log shows."""
    (commands,) = struct.unpack_from("<I", data, 16)
    if len(image.commands) != commands or any(command.size < 8 for command in image.commands):
        raise MachoError("a load command of no sensible size")
    for segment in image.segments:
        if segment.file_offset + segment.file_size > len(data):
            raise MachoError(f"the segment {_text(segment.name)} reaches beyond the file")
    table = image.symbol_command
    if table is not None and len(_symbol_table(image)) != table.numberof_symbols:
        raise MachoError("the symbol table reaches beyond the file")
    fixups = image.dyld_chained_fixups
    if fixups is not None:
        if len(fixups.payload) != fixups.data_size or fixups.data_size < _FIXUPS.size:
            raise MachoError("the imports reach beyond the file")
        count, layout, compressed = _FIXUPS.unpack_from(fixups.payload)
        if compressed or layout not in _IMPORT_LAYOUTS:
            raise MachoError(f"imports in an unknown layout: {layout}, {compressed}")
        if layout == _PLAIN_IMPORTS and len(_bound(image)) != count:
            raise MachoError("an import's name reaches beyond the file")


def _systems(image: MachO.Binary) -> tuple[Version, Version] | tuple[None, None]:
    """The oldest macOS and the SDK; (None, None) if the file names none."""
    build, older = image.build_version, image.version_min
    # By its bytes: build.platform warns of a number that LIEF has no name for.
    if build is not None and bytes(build.data[8:12]) == _MACOS:
        return _version(build.minos), _version(build.sdk)
    if older is not None and older.command == _COMMANDS.VERSION_MIN_MACOSX:
        return _version(older.version), _version(older.sdk)
    return None, None


def _imports(image: MachO.Binary, libraries: Sequence[LinkedLibrary]) -> Iterator[Import]:
    """Yield the undefined external symbols of the symbol table, and the symbols that dyld binds."""
    for symbol in _symbol_table(image):
        is_undefined = symbol.raw_type & 0xEF == 0x01 and not symbol.numberof_sections
        if is_undefined:
            weak, ordinal = bool(symbol.description & 0x40), symbol.description >> 8 & 0xFF
            yield _import(symbol, libraries, ordinal, weak=weak)
    for symbol, binding in _bound(image):
        yield _import(symbol, libraries, binding.library_ordinal, weak=binding.weak_import)


def _import(
    symbol: MachO.Symbol, libraries: Sequence[LinkedLibrary], ordinal: int, *, weak: bool
) -> Import:
    """Make an Import. `ordinal`: libraries count from 1; 0 is the file itself; others mean any."""
    if not symbol.name:
        raise MachoError("an import's name reaches beyond the file")
    library = libraries[ordinal - 1].name if 0 < ordinal <= len(libraries) else ""
    return Import(_text(symbol.name), library, weak)


def _symbol_table(image: MachO.Binary) -> list[MachO.Symbol]:
    """The symbol table, without the symbols that LIEF adds for exports and bindings."""
    return [symbol for symbol in image.symbols if symbol.origin == MachO.Symbol.ORIGIN.SYMTAB]


def _bound(image: MachO.Binary) -> list[tuple[MachO.Symbol, MachO.BindingInfo]]:
    """The imports that LC_DYLD_CHAINED_FIXUPS lists."""
    found = image.symbols if image.dyld_chained_fixups is not None else ()
    return [(symbol, binding) for symbol in found if (binding := symbol.binding_info) is not None]


def _exports(image: MachO.Binary) -> Iterator[str]:
    for table in (image.dyld_info, image.dyld_exports_trie):
        for export in table.exports if table is not None else ():
            if export.symbol is not None:
                yield _text(export.symbol.name)


def _text(name: str | bytes) -> str:
    """A name as text. LIEF gives bytes if it is not UTF-8."""
    return name if isinstance(name, str) else name.decode()


def _version(numbers: Sequence[int]) -> Version:
    major, minor, patch = numbers
    return major, minor, patch


def _cpu_name(cpu: int) -> str:
    return _CPU_NAMES.get(cpu, f"CPU type {cpu:#x}")
