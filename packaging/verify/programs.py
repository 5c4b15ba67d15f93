"""Checks that the oldest supported system would load the bundle's programs and libraries.

Knows load commands, as macho reads them; verify.seals checks signatures. By the loader's rules
(man dyld) every name must lead to a file in the bundle or into the system.

The list of symbols that came after macOS 14.0 is not complete: it has the symbols that today's
compilers and libraries are known to use silently. A library that needs one does not load on an
older system, whatever its version stamp says. Sources: libc++'s ABI changelog
(libcxx/lib/abi/CHANGELOG.TXT) and <__configuration/availability.h> for which LLVM has what and
which macOS has that LLVM; Apple's <os/os_sync_wait_on_address.h>.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cached_property
from pathlib import Path

import macho
from macho import Macho
from verify import Finding, walk

_SYSTEM = ("/usr/lib/", "/System/Library/")
_METALLIB = b"MTLB"

type Release = tuple[int, int]


@dataclass(frozen=True)
class NewerSymbols:
    """The symbols that came with a version of macOS, such as (14, 4): those whose mangled name
    `pattern` matches as a whole."""

    pattern: str
    macos: Release
    what: str


NEWER_SYMBOLS = (
    NewerSymbols(r"_os_sync_(wait|wake)_.*", (14, 4), "waiting on an address"),
    NewerSymbols(r"___cxa_init_primary_exception", (15, 0), "exceptions without a throw (LLVM 18)"),
    NewerSymbols(
        r"__ZNSt3__1(19__is_posix_terminal|18__get_ostream_file).*", (15, 0), "<print> (LLVM 18)"
    ),
    NewerSymbols(
        r"__ZN?K?(T[ISV]N)?St3__1(17bad_function_call|19bad_expected_accessIvE).*",
        (15, 4),
        "std::bad_function_call in the library (LLVM 19)",
    ),
    NewerSymbols(r"__ZNSt3__16chrono.*tzdb.*", (15, 4), "time zones (LLVM 19)"),
    NewerSymbols(r"_strchrnul", (15, 4), "strchrnul"),
    NewerSymbols(
        r"__ZNSt3__1\d+__from_chars_floating_point.*", (26, 0), "std::from_chars (LLVM 20)"
    ),
    NewerSymbols(r"__ZNSt3__113__hash_memoryEPKvm", (26, 0), "hashing in the library (LLVM 21)"),
    NewerSymbols(r"__ZNSt3__1\d+__atomic_\w*(native|global).*", (26, 0), "atomic waits (LLVM 22)"),
    NewerSymbols(
        r"__ZNSt13exception_ptr31__from_native_exception_pointer.*", (26, 0), "std::exception_ptr"
    ),
    NewerSymbols(r"___f(max|min)f16", (26, 0), "half-precision arithmetic"),
)


def newer_than(symbol: str, oldest: Release) -> NewerSymbols | None:
    """The entry of a `symbol` that macOS `oldest` lacks; None if it is not known to be newer."""
    for newer in NEWER_SYMBOLS:
        if newer.macos > oldest and re.fullmatch(newer.pattern, symbol):
            return newer
    return None


@dataclass(frozen=True)
class Program:
    """A Mach-O file of the bundle, read; `path` is relative to the bundle."""

    path: str
    image: Macho


@dataclass(frozen=True)
class Programs:
    """All Mach-O files of the bundle, and the faults of unreadable ones."""

    app: Path
    readable: Sequence[Program]
    faults: Sequence[Finding]

    @cached_property
    def executable_folder(self) -> Path:
        return self.app / "Contents" / "MacOS"

    @cached_property
    def executable_rpaths(self) -> tuple[str, ...]:
        """The search path of the programs, which the libraries that they load inherit."""
        return tuple(
            rpath
            for program in self.readable
            if Path(program.path).parent == Path("Contents/MacOS")
            for rpath in program.image.rpaths
        )


def read_programs(app: Path, *, architecture: str) -> Programs:
    """Read every Mach-O file; a file for other architectures than `architecture` is a fault."""
    readable: list[Program] = []
    faults: list[Finding] = []
    for path, file in walk(app):
        if not macho.is_macho(file):
            continue
        data = file.read_bytes()
        try:
            found = macho.architectures(data)
            if found != (architecture,):
                names = " and ".join(found)
                faults.append(Finding("architecture", path, f"{names}, not {architecture} alone"))
            else:
                readable.append(Program(path, macho.read(data)))
        except macho.MachoError as error:
            faults.append(Finding("architecture", path, str(error)))
    return Programs(app, readable, faults)


def minimum_macos(
    programs: Programs, *, oldest: Release, allowed: Mapping[str, Release]
) -> Iterator[Finding]:
    """Find files that claim to need a newer system.

    The loader ignores this stamp. So `allowed` names files (patterns, relative to Contents) that
    are stamped with the system that they were built on, and the newest stamp that they may have;
    their imports are checked like all others.
    """
    for program in programs.readable:
        stamp = program.image.minimum_macos
        if stamp is None:
            yield Finding("minimum macOS", program.path, "names no macOS that it needs")
            continue
        path = program.path.removeprefix("Contents/")
        limit = max((most for name, most in allowed.items() if fnmatch(path, name)), default=oldest)
        if stamp[:2] > limit:
            yield Finding(
                "minimum macOS", program.path, f"needs macOS {_dotted(stamp[:2])} or newer"
            )


def libraries(programs: Programs) -> Iterator[Finding]:
    """Find libraries that are not in the bundle, and names that lead out of it."""
    for program in programs.readable:
        wanted = [each for each in program.image.libraries if not each.name.startswith(_SYSTEM)]
        for rpath in program.image.rpaths if wanted else ():  # else nothing is looked for
            if rpath.startswith("/") and not rpath.startswith(_SYSTEM):
                yield Finding("libraries", program.path, f"looks for libraries in {rpath}")
        for library in wanted:
            if not library.name.startswith("@"):
                yield Finding("libraries", program.path, f"wants {library.name}: not in the bundle")
            elif not library.weak and resolve(programs, program, library.name) is None:
                yield Finding("libraries", program.path, f"wants {library.name}: missing")


def resolve(programs: Programs, program: Program, name: str) -> Path | None:
    """The file in the bundle that the loader finds for `name`; None if there is none."""
    rpaths = (*program.image.rpaths, *programs.executable_rpaths)
    start, _, rest = name.partition("/")
    names = [f"{rpath}/{rest}" for rpath in rpaths] if start == "@rpath" else [name]
    folder = (programs.app / program.path).parent
    for candidate in names:
        path = Path(
            candidate.replace("@loader_path", str(folder)).replace(
                "@executable_path", str(programs.executable_folder)
            )
        )
        if not path.is_file():
            continue
        if path.resolve().is_relative_to(programs.app.resolve()):
            return path
    return None


def newer_symbols(programs: Programs, *, oldest: Release) -> Iterator[Finding]:
    """Find imports that the oldest system does not have. Weak ones may be missing."""
    for program in programs.readable:
        for wanted in program.image.imports:
            if wanted.weak or wanted.library.startswith("@"):
                continue
            if (newer := newer_than(wanted.symbol, oldest)) is not None:
                yield Finding(
                    "newer symbols",
                    program.path,
                    f"imports {wanted.symbol}: {newer.what}, since macOS {_dotted(newer.macos)}",
                )


def symbols(programs: Programs) -> Iterator[Finding]:
    """Find imports that the bundle's libraries should export and do not."""
    images = {programs.app / program.path: program.image for program in programs.readable}
    for program in programs.readable:
        places = {  # looked for once, as a binding imports thousands of symbols from a library
            library.name: resolve(programs, program, library.name)
            for library in program.image.libraries
            if library.name.startswith("@")
        }
        for wanted in program.image.imports:
            if wanted.weak or not wanted.library.startswith("@"):
                continue
            path = places.get(wanted.library)
            if path in images and not _has(programs, path, images, wanted.symbol):
                message = f"imports {wanted.symbol}, which {wanted.library} does not have"
                yield Finding("symbols", program.path, message)


def python_symbols(programs: Programs) -> Iterator[Finding]:
    """Find imports of extension modules that this Python does not have."""
    exports = frozenset[str]().union(*(program.image.exports for program in programs.readable))
    for program in programs.readable:
        for wanted in program.image.imports:
            if wanted.weak or wanted.library or not wanted.symbol.startswith(("_Py", "__Py")):
                continue
            if wanted.symbol not in exports:
                yield Finding("symbols", program.path, f"{wanted.symbol}: not in this Python")


def _has(programs: Programs, path: Path, images: Mapping[Path, Macho], symbol: str) -> bool:
    """Whether the library at `path`, or a library that it reexports, exports `symbol`."""
    if symbol in images[path].exports:
        return True
    program = Program(path.relative_to(programs.app).as_posix(), images[path])
    for library in program.image.libraries:
        if library.reexported:
            passed_on = resolve(programs, program, library.name)
            if passed_on is None or passed_on not in images:
                return True  # a system library: its exports are not known here
            if passed_on != path and _has(programs, passed_on, images, symbol):
                return True
    return False


def metal_libraries(app: Path, *, oldest: Release) -> Iterator[Finding]:
    """Find compiled Metal kernels for a newer system, by their header from byte 12 on."""
    found = list(walk(app, "*.metallib"))
    if not found:
        yield Finding("Metal kernels", "", "missing: MLX would not run")
    for path, file in found:
        with file.open("rb") as opened:
            header = opened.read(16)
        if len(header) < 16 or header[:4] != _METALLIB:
            yield Finding("Metal kernels", path, "not a Metal library")
            continue
        release = int.from_bytes(header[12:14], "little"), int.from_bytes(header[14:16], "little")
        if release > oldest:
            yield Finding("Metal kernels", path, f"for macOS {_dotted(release)} or newer")


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
