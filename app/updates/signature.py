"""The signature around a feed: Ed25519 over its text, by libsodium. Knows bytes, no releases.

    {"signed": "{...}", "signature": "<base64>"}

One file holds both, so that what is fetched always belongs together.
"""

import base64
import json

from nacl.exceptions import CryptoError
from nacl.signing import SigningKey, VerifyKey

from models.errors import Problem

_PURPOSE = b"Slipstream releases 1\n"  # what else may be signed with the key is no feed


def seal(text: str, private_key: bytes) -> bytes:
    """The file of a feed with this text. `private_key` has 32 bytes."""
    signature = SigningKey(private_key).sign(_PURPOSE + text.encode()).signature
    sealed = {"signed": text, "signature": base64.b64encode(signature).decode()}
    return json.dumps(sealed, indent=1).encode() + b"\n"


def unseal(data: bytes, public_key: bytes) -> str:
    """The text in a feed's file. Raises Problem where it is not signed with this key."""
    try:
        sealed = json.loads(data)
        text = sealed["signed"]
        signature = base64.b64decode(sealed["signature"], validate=True)
        VerifyKey(public_key).verify(_PURPOSE + text.encode(), signature)
    except (CryptoError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as bad:
        raise Problem(
            "The releases feed is not signed by whoever releases Slipstream.",
            "Do not install what it offers. Look for a newer version where you got this one.",
        ) from bad
    return str(text)
