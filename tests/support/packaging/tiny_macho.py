"""Mach-O files of a few hundred bytes, as a linker would lay them out; nothing that could run."""

import struct
from dataclasses import dataclass, field

ARM64, X86_64 = 0x0100000C, 0x01000007
EXECUTE, LIBRARY, MODULE = 2, 6, 8
_LOAD, _LOAD_WEAK, _REEXPORT, _RPATH = 0xC, 0x80000018, 0x8000001F, 0x8000001C
_EXPORTS_TRIE = 0x80000033
_SYMTAB, _SEGMENT, _BUILD_VERSION, _SIGNATURE = 0x2, 0x19, 0x32, 0x1D
_CHAINED_FIXUPS = 0x80000034
_CODE_START = 0x600


@dataclass(frozen=True)
class TinyMacho:
    """The contents of the file. imports: symbol, number of the library from 1, whether weak."""

    cpu: int = ARM64
    file_type: int = LIBRARY
    minimum_macos: tuple[int, int] = (14, 0)
    sdk: tuple[int, int] = (14, 4)
    libraries: tuple[str, ...] = ("/usr/lib/libSystem.B.dylib",)
    weak_libraries: tuple[str, ...] = ()
    reexported: tuple[str, ...] = ()
    rpaths: tuple[str, ...] = ()
    imports: tuple[tuple[str, int, bool], ...] = ()
    chained_imports: tuple[tuple[str, int, bool], ...] = ()
    exports: tuple[str, ...] = ()
    code: bytes = b"\xc0\x03\x5f\xd6" * 1200  # ret: more than one page, so that hashes are several
    padding: int = field(default=_CODE_START)  # where load commands must end

    def build(self):
        """The bytes, unsigned."""
        link_start = (self.padding + len(self.code) + 0xFFF) & ~0xFFF
        symbols, strings = self._symbols()
        names_start = link_start + len(symbols)
        fixups = self._fixups()
        exports = self._exports_trie()
        link = symbols + strings + fixups + exports
        link += bytes(-len(link) % 16)
        section = struct.pack(
            "<16s16sQQ8I", b"__text", b"__TEXT", 0, len(self.code), self.padding, 2, *[0] * 6
        )
        commands = [
            self._segment(b"__TEXT", 0, link_start, section),
            self._segment(b"__LINKEDIT", link_start, len(link)),
            *(self._string(_LOAD, name, 16) for name in self.libraries),
            *(self._string(_LOAD_WEAK, name, 16) for name in self.weak_libraries),
            *(self._string(_REEXPORT, name, 16) for name in self.reexported),
            *(self._string(_RPATH, path, 4) for path in self.rpaths),
            self._build_version(),
            self._numbers(_SYMTAB, link_start, len(self.imports), names_start, len(strings)),
        ]
        if fixups:
            place = names_start + len(strings)
            commands.append(self._numbers(_CHAINED_FIXUPS, place, len(fixups)))
        if exports:
            place = names_start + len(strings) + len(fixups)
            commands.append(self._numbers(_EXPORTS_TRIE, place, len(exports)))
        body = b"".join(commands)
        numbers = (self.cpu, 0, self.file_type, len(commands), len(body), 0x85, 0)
        start = struct.pack("<4s7I", b"\xcf\xfa\xed\xfe", *numbers) + body
        assert len(start) <= self.padding, "padding is too small"
        return (start.ljust(self.padding, b"\0") + self.code).ljust(link_start, b"\0") + link

    def _symbols(self):
        names = b"\0"
        entries = b""
        for symbol, library, weak in self.imports:
            description = library << 8 | (0x40 if weak else 0)
            entries += struct.pack("<IBBHQ", len(names), 0x01, 0, description, 0)
            names += symbol.encode() + b"\0"
        return entries, names

    def _fixups(self):
        if not self.chained_imports:
            return b""
        names = b"\0"
        entries = b""
        for symbol, library, weak in self.chained_imports:
            entries += struct.pack("<I", library | weak << 8 | len(names) << 9)
            names += symbol.encode() + b"\0"
        count = len(self.chained_imports)
        header = struct.pack("<7I", 0, 28, 40, 40 + len(entries), count, 1, 0)
        starts = struct.pack("<3I", 2, 0, 0)  # of two segments, neither with a pointer to bind
        return header + starts + entries + names

    def _exports_trie(self):
        """A root with a branch for each name; one byte is enough for every offset."""
        if not self.exports:
            return b""
        branches = [name.encode() + b"\0" for name in self.exports]
        first = 2 + sum(len(branch) + 1 for branch in branches)
        leaf = b"\x02\0\0\0"  # two bytes of flags and address; no further branches
        root = b"\0" + bytes((len(branches),))
        for number, branch in enumerate(branches):
            root += branch + bytes((first + number * len(leaf),))
        assert first + len(branches) * len(leaf) < 0x80, "too many exports"
        return root + leaf * len(branches)

    def _segment(self, name, start, size, section=b""):
        numbers = (start, size, start, size, 5, 5, bool(section), 0)
        return self._command(_SEGMENT, struct.pack("<16s4Q4I", name, *numbers) + section)

    def _build_version(self):
        oldest, sdk = (major << 16 | minor << 8 for major, minor in (self.minimum_macos, self.sdk))
        return self._numbers(_BUILD_VERSION, 1, oldest, sdk, 0)

    def _numbers(self, command, *numbers):
        return self._command(command, struct.pack(f"<{len(numbers)}I", *numbers))

    def _string(self, command, text, numbers_bytes):
        """A command with a string after its numbers, the first of which says where it begins."""
        numbers = struct.pack("<I", 8 + numbers_bytes).ljust(numbers_bytes, b"\0")
        return self._command(command, numbers + text.encode() + b"\0")

    @staticmethod
    def _command(number, payload):
        payload += bytes(-len(payload) % 8)
        return struct.pack("<II", number, len(payload) + 8) + payload


def universal(parts):
    """A file of several architectures: what is in it, by CPU type."""
    head = struct.pack(">II", 0xCAFEBABE, len(parts))
    offset, body = 8 + 20 * len(parts), b""
    for cpu, data in parts.items():
        head += struct.pack(">5I", cpu, 0, offset + len(body), len(data), 0)
        body += data
    return head + body


def with_circular_exports(image, name):
    """The image, where the branch of the exports that should lead to `name` leads back."""
    branch = image.index(b"\x01" + name.encode() + b"\0") + len(name) + 2
    return image[:branch] + b"\0" + image[branch + 1 :]
