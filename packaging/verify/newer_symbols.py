"""Symbols of the system's libraries that came after macOS 14.0, with the version of each.

A library that needs one does not load on an older system, whatever its version stamp says. The list
is not complete: it has the symbols that today's compilers and libraries are known to use silently.

Sources: libc++'s ABI changelog (libcxx/lib/abi/CHANGELOG.TXT) and <__configuration/availability.h>
for which LLVM has what and which macOS has that LLVM; Apple's <os/os_sync_wait_on_address.h>.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class NewerSymbols:
    """The symbols that came with a version of macOS, such as (14, 4): those whose mangled name
    `pattern` matches as a whole."""

    pattern: re.Pattern[str]
    macos: tuple[int, int]
    what: str


def _newer(pattern: str, macos: tuple[int, int], what: str) -> NewerSymbols:
    return NewerSymbols(re.compile(pattern), macos, what)


NEWER_SYMBOLS = (
    _newer(r"_os_sync_(wait|wake)_.*", (14, 4), "waiting on an address"),
    _newer(r"___cxa_init_primary_exception", (15, 0), "exceptions without a throw (LLVM 18)"),
    _newer(
        r"__ZNSt3__1(19__is_posix_terminal|18__get_ostream_file).*", (15, 0), "<print> (LLVM 18)"
    ),
    _newer(
        r"__ZN?K?(T[ISV]N)?St3__1(17bad_function_call|19bad_expected_accessIvE).*",
        (15, 4),
        "std::bad_function_call in the library (LLVM 19)",
    ),
    _newer(r"__ZNSt3__16chrono.*tzdb.*", (15, 4), "time zones (LLVM 19)"),
    _newer(r"_strchrnul", (15, 4), "strchrnul"),
    _newer(r"__ZNSt3__1\d+__from_chars_floating_point.*", (26, 0), "std::from_chars (LLVM 20)"),
    _newer(r"__ZNSt3__113__hash_memoryEPKvm", (26, 0), "hashing in the library (LLVM 21)"),
    _newer(r"__ZNSt3__1\d+__atomic_\w*(native|global).*", (26, 0), "atomic waits (LLVM 22)"),
    _newer(
        r"__ZNSt13exception_ptr31__from_native_exception_pointer.*", (26, 0), "std::exception_ptr"
    ),
    _newer(r"___f(max|min)f16", (26, 0), "half-precision arithmetic"),
)


def newer_than(symbol: str, oldest: tuple[int, int]) -> NewerSymbols | None:
    """The entry of a `symbol` that macOS `oldest` lacks; None if it is not known to be newer."""
    for newer in NEWER_SYMBOLS:
        if newer.macos > oldest and newer.pattern.fullmatch(symbol):
            return newer
    return None
