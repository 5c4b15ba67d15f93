"""Makes the signature in a Mach-O file without a certificate ("ad hoc"), and checks signatures.

Knows the blobs that LC_CODE_SIGNATURE points to: a directory with the hashes of the file's pages
and of the files that belong to it (Info.plist, requirements, the bundle's seal, entitlements).
Checks hashes only; certificates, which say who signed, are for a Mac to check.

Sources: xnu's osfmk/kern/cs_blobs.h and bsd/kern/ubc_subr.c, Apple's Security framework
(libsecurity_codesigning: codedirectory.h, sigblob.h), TN3126 "Inside Code Signing: Hashes".
"""

import hashlib
import plistlib
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import macho

_AD_HOC = 0x2  # a flag of the code directory: signed by no one
CDHASH_BYTES = 20  # the system's name of a program: the start of its code directory's hash

_SUPERBLOB, _CODE_DIRECTORY = 0xFADE0CC0, 0xFADE0C02
_REQUIREMENTS, _ENTITLEMENTS, _ENTITLEMENTS_DER = 0xFADE0C01, 0xFADE7171, 0xFADE7172
_CMS = 0xFADE0B01
_DIRECTORY_PLACE, _ALTERNATES, _CMS_PLACE = 0, range(0x1000, 0x1006), 0x10000
_INFO_SLOT, _REQUIREMENTS_SLOT, _CODE_RESOURCES_SLOT = 1, 2, 3
_ENTITLEMENTS_SLOT, _ENTITLEMENTS_DER_SLOT = 5, 7
_HASHES = {1: hashlib.sha1, 2: hashlib.sha256, 3: hashlib.sha256, 4: hashlib.sha384}
_SHA256 = 2
_VERSION_WITH_EXECUTABLE_SEGMENT = 0x20400
_DIRECTORY_HEADER = ">9I4BIIIIQQQQ"
_PAGE_BITS = 12
_MAIN_BINARY = 1  # the executable segment belongs to a program, not to a library
_NO_HASH = bytes(32)


class SignatureError(ValueError):
    """A signature that does not hold; the message says what differs."""


@dataclass(frozen=True)
class Signature:
    """The content of a file's strongest code directory. cdhash: see CDHASH_BYTES."""

    identifier: str
    cdhash: bytes


@dataclass(frozen=True)
class CoveredFiles:
    """The other files that a signature covers; b"" for a missing one."""

    info_plist: bytes = b""
    code_resources: bytes = b""


@dataclass(frozen=True)
class _Directory:
    """A code directory: the places of its hashes, and what each is a hash of."""

    blob: bytes
    identifier: str
    hash_type: int
    hash_bytes: int
    hashes_offset: int
    special_slots: int
    pages: int
    page_bytes: int
    code_bytes: int

    def slot(self, number: int) -> bytes:
        """The hash of a page; of a special slot if the number is negative."""
        start = self.hashes_offset + number * self.hash_bytes
        return self.blob[start : start + self.hash_bytes]

    def digest(self, data: bytes | memoryview) -> bytes:
        return _HASHES[self.hash_type](data).digest()[: self.hash_bytes]


def signed(
    data: bytes,
    *,
    identifier: str,
    covered: CoveredFiles | None = None,
    entitlements: Mapping[str, bool] | None = None,
) -> bytes:
    """The image (one architecture) with an ad-hoc signature in place of an earlier one.

    Raises macho.MachoError if the file has no room for a signature.
    """
    covered = covered or CoveredFiles()
    blobs = {_REQUIREMENTS_SLOT: _blob(_REQUIREMENTS, struct.pack(">I", 0))}
    if entitlements:
        blobs[_ENTITLEMENTS_SLOT] = _blob(_ENTITLEMENTS, plistlib.dumps(dict(entitlements)))
        blobs[_ENTITLEMENTS_DER_SLOT] = _blob(_ENTITLEMENTS_DER, _der(entitlements))
    slots = {number: _sha256(blob) for number, blob in blobs.items()} | {
        _INFO_SLOT: _sha256(covered.info_plist),
        _CODE_RESOURCES_SLOT: _sha256(covered.code_resources),
    }
    # A signature's size depends on the code's size alone: measure it, make room, then hash.
    code_bytes = len(macho.with_room_for_signature(data, 0))
    draft = _code_directory(bytes(code_bytes), macho.read(data), identifier, slots)
    size_bytes = len(_superblob(draft, blobs)) + 15 & ~15
    code = macho.with_room_for_signature(data, size_bytes)
    directory = _code_directory(code, macho.read(data), identifier, slots)
    return code + _superblob(directory, blobs).ljust(size_bytes, b"\0")


def check(data: bytes, covered: CoveredFiles | None = None) -> Signature:
    """Check every hash in the signature of an image of one architecture, and return the signature.

    `covered`: the signed files; None: they are not checked. Raises SignatureError if the image is
    unsigned or differs, MachoError if it is not an image.
    """
    image = macho.read(data)
    if not image.signature_bytes:
        raise SignatureError("it is not signed")
    try:
        return _check(data, image, covered)
    except (struct.error, IndexError, KeyError, UnicodeDecodeError) as error:
        raise SignatureError("its signature is damaged") from error


def _check(data: bytes, image: macho.Macho, covered: CoveredFiles | None) -> Signature:
    end = image.signature_offset + image.signature_bytes
    blobs = dict(_blobs(data[image.signature_offset : end]))
    directories = [
        _read_directory(blobs[place])
        for place in (_DIRECTORY_PLACE, *_ALTERNATES)
        if place in blobs
    ]
    for directory in directories:
        _check_pages(data, image, directory)
        _check_covered(blobs, directory, covered)
    strongest = max(directories, key=lambda directory: directory.hash_type)
    return Signature(
        identifier=strongest.identifier,
        cdhash=_HASHES[strongest.hash_type](strongest.blob).digest()[:CDHASH_BYTES],
    )


def _check_pages(data: bytes, image: macho.Macho, directory: _Directory) -> None:
    if directory.code_bytes != image.signature_offset:
        raise SignatureError("its signature covers another length")
    if directory.pages != -(-directory.code_bytes // directory.page_bytes):
        raise SignatureError("its signature has another number of pages")
    code = memoryview(data)[: directory.code_bytes]
    for page in range(directory.pages):
        start = page * directory.page_bytes
        if directory.digest(code[start : start + directory.page_bytes]) != directory.slot(page):
            raise SignatureError(f"the bytes from {start:#x} on were changed after signing")


def _check_covered(
    blobs: Mapping[int, bytes], directory: _Directory, covered: CoveredFiles | None
) -> None:
    expected = {
        _REQUIREMENTS_SLOT: ("requirements", blobs.get(_REQUIREMENTS_SLOT, b"")),
        _ENTITLEMENTS_SLOT: ("entitlements", blobs.get(_ENTITLEMENTS_SLOT, b"")),
        _ENTITLEMENTS_DER_SLOT: ("entitlements (DER)", blobs.get(_ENTITLEMENTS_DER_SLOT, b"")),
    }
    if covered is not None:
        expected[_INFO_SLOT] = ("Info.plist", covered.info_plist)
        expected[_CODE_RESOURCES_SLOT] = ("CodeResources", covered.code_resources)
    for number, (name, content) in expected.items():
        present = number <= directory.special_slots and any(directory.slot(-number))
        matches = directory.slot(-number) == directory.digest(content) if content else True
        if present != bool(content) or not matches:
            raise SignatureError(f"{name}: changed after signing")


def _read_directory(blob: bytes) -> _Directory:
    header = struct.unpack_from(">9I4B", blob)
    _, length, _, _, hashes, name, special, pages, limit = header[:9]
    hash_bytes, hash_type, _, page_bits = header[9:]
    if length != len(blob) or hashes + pages * hash_bytes > length or page_bits > 16:
        raise SignatureError("its code directory is damaged")
    return _Directory(
        blob=blob,
        identifier=blob[name : blob.index(0, name)].decode(),
        hash_type=hash_type,
        hash_bytes=hash_bytes,
        hashes_offset=hashes,
        special_slots=special,
        pages=pages,
        page_bytes=1 << page_bits,
        code_bytes=limit,
    )


def _blobs(superblob: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the place and the bytes of each blob in a signature."""
    magic, _, count = struct.unpack_from(">III", superblob)
    if magic != _SUPERBLOB:
        raise SignatureError("its signature is damaged")
    for index in range(count):
        place, offset = struct.unpack_from(">II", superblob, 12 + 8 * index)
        _, size_bytes = struct.unpack_from(">II", superblob, offset)
        yield place, superblob[offset : offset + size_bytes]


def _code_directory(
    code: bytes, image: macho.Macho, identifier: str, slots: Mapping[int, bytes]
) -> bytes:
    text = image.segment("__TEXT")
    name = identifier.encode() + b"\0"
    header_bytes = struct.calcsize(_DIRECTORY_HEADER)
    special = max(number for number, digest in slots.items() if any(digest))
    page_bytes = 1 << _PAGE_BITS
    pages = [code[start : start + page_bytes] for start in range(0, len(code), page_bytes)]
    hashes_offset = header_bytes + len(name) + len(_NO_HASH) * special
    header = struct.pack(
        _DIRECTORY_HEADER,
        _CODE_DIRECTORY,
        hashes_offset + len(_NO_HASH) * len(pages),
        _VERSION_WITH_EXECUTABLE_SEGMENT,
        _AD_HOC,
        hashes_offset,
        header_bytes,
        special,
        len(pages),
        len(code),
        len(_NO_HASH),
        _SHA256,
        0,  # platform: not one of Apple's own programs
        _PAGE_BITS,
        0,
        0,  # no scatter vector
        0,  # no team
        0,
        0,  # the code is shorter than 4 GiB
        text.file_offset,
        text.file_bytes,
        _MAIN_BINARY if image.file_type == macho.EXECUTE else 0,
    )
    special_slots = [slots.get(number, _NO_HASH) for number in range(special, 0, -1)]
    return header + name + b"".join(special_slots + [_sha256(page) for page in pages])


def _superblob(directory: bytes, blobs: Mapping[int, bytes]) -> bytes:
    parts = {_DIRECTORY_PLACE: directory, **dict(sorted(blobs.items()))}
    parts[_CMS_PLACE] = _blob(_CMS, b"")  # the place of a certificate's signature
    offset = 12 + 8 * len(parts)
    index = b""
    for place, part in parts.items():
        index += struct.pack(">II", place, offset)
        offset += len(part)
    return struct.pack(">III", _SUPERBLOB, offset, len(parts)) + index + b"".join(parts.values())


def _blob(magic: int, payload: bytes) -> bytes:
    return struct.pack(">II", magic, len(payload) + 8) + payload


def _sha256(data: bytes) -> bytes:
    """The hash of data, or zeros for b""."""
    return hashlib.sha256(data).digest() if data else _NO_HASH


def _der(entitlements: Mapping[str, bool]) -> bytes:
    """[APPLICATION 16] { version 1, [16] { { name, value } ... } }, as macOS 12 and later read."""
    pairs = (
        _element(0x30, _element(0x0C, name.encode()) + _element(0x01, b"\xff" if value else b"\0"))
        for name, value in sorted(entitlements.items())
    )
    return _element(0x70, _element(0x02, b"\x01") + _element(0xB0, b"".join(pairs)))


def _element(tag: int, content: bytes) -> bytes:
    size_bytes = len(content)
    if size_bytes < 0x80:
        return bytes((tag, size_bytes)) + content
    length = size_bytes.to_bytes((size_bytes.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(length))) + length + content
