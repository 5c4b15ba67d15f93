"""Signs the releases feed, which the application asks for newer versions.

    python packaging/feed.py key PRIVATE_KEY_FILE
    python packaging/feed.py sign dist/Slipstream-0.2.0-arm64.dmg --key PRIVATE_KEY_FILE
        --page https://.../v0.2.0 --download https://.../Slipstream-0.2.0-arm64.dmg
        --notes NOTES.txt --out feed.json

The first makes a key, and prints the public half, which goes into app/updates/feed.py. The
private half never goes into the repository: keep it where only whoever releases can read it. The
feed expires, so sign it anew before it does, also where there is nothing new.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from nacl.signing import SigningKey

from app.updates.check import sign_text
from app.updates.feed import Feed, Release, feed_from_text, feed_to_text
from configuration import REPOSITORY, read_configuration
from models.download import file_sha256
from models.errors import Problem

_DAYS = 90
_KEY_BYTES = 32


def make_key(path: Path) -> str:
    """Write a new private key, which only its owner can read; the public one, in hexadecimal.

    Raises Problem where the file is there already, or in the repository.
    """
    if path.resolve().is_relative_to(REPOSITORY):
        raise Problem(
            "A private key must not lie in the repository.", "Choose another folder for it."
        )
    key = SigningKey.generate()
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as error:
        raise Problem(f"{path} exists already.", "Choose another name.") from error
    with os.fdopen(descriptor, "w") as file:
        file.write(f"{bytes(key).hex()}\n")
    return bytes(key.verify_key).hex()


def read_key(path: Path) -> bytes:
    """A private key that `make_key` wrote. Raises Problem where it is none."""
    try:
        key = bytes.fromhex(path.read_text(encoding="ascii").strip())
    except (OSError, ValueError) as error:
        raise Problem(f"{path} holds no key.", "Make one: packaging/feed.py key FILE") from error
    if len(key) != _KEY_BYTES:
        raise Problem(f"{path} holds no key.", "Make one: packaging/feed.py key FILE")
    return key


def sign_feed(
    image: Path, *, version: str, page: str, download: str, notes: str, key: bytes, now: datetime
) -> bytes:
    """The feed that announces the file `image`. Raises Problem where a link is not HTTPS."""
    release = Release(
        version=version,
        page=page,
        download=download,
        size_bytes=image.stat().st_size,
        sha256=file_sha256(image),
        notes=notes,
    )
    text = feed_to_text(Feed(made=now, expires=now + timedelta(days=_DAYS), release=release))
    feed_from_text(text, loopback=False)  # as the application reads it
    return sign_text(text, key)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command in the arguments, and return the exit status."""
    parser = argparse.ArgumentParser(description="Sign the feed that announces a release.")
    commands = parser.add_subparsers(dest="command", required=True)
    key = commands.add_parser("key", help="make a key; prints its public half")
    key.add_argument("file", type=Path, help="where its private half goes")
    sign = commands.add_parser("sign", help="write a signed feed")
    sign.add_argument("image", type=Path, help="what can be downloaded")
    sign.add_argument("--key", type=Path, required=True, help="the private key's file")
    sign.add_argument("--page", required=True, help="the release's page, which people are shown")
    sign.add_argument("--download", required=True, help="where the image can be had")
    sign.add_argument("--notes", type=Path, required=True, help="what is new, as plain text")
    sign.add_argument("--out", type=Path, required=True, help="the feed")
    options = parser.parse_args(arguments)
    try:
        if options.command == "key":
            print(make_key(options.file))
        else:
            feed = sign_feed(
                options.image,
                version=read_configuration().version,
                page=options.page,
                download=options.download,
                notes=options.notes.read_text(encoding="utf-8"),
                key=read_key(options.key),
                now=datetime.now(UTC).replace(microsecond=0),
            )
            options.out.write_bytes(feed)
    except Problem as problem:
        print(problem, file=sys.stderr)
        return 2
    except OSError as error:
        print(f"{error.filename}: {error.strerror}.", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
