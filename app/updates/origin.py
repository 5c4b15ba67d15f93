"""Where releases are announced, and whose signature holds.

Neither has an owner yet. Whoever releases Slipstream makes a key (`python packaging/feed.py key`),
and puts its public half and the address of the feed here.
"""

from dataclasses import dataclass
from urllib.parse import urlsplit

# A domain that cannot exist (RFC 2606): as long as it stands here, nothing is ever asked.
FEED_ADDRESS = "https://slipstream.invalid/releases/feed.json"

# Ed25519, in hexadecimal. Nobody has its private half: nothing that is signed is taken for ours
# before a real one replaces it.
PUBLIC_KEY = "be3c7cb1e327a9d1a5b462c37829a311b17a442b83e20b88cc37cc74a2fcd9f0"


@dataclass(frozen=True, slots=True)
class Origin:
    """A feed's address and the public key, in hexadecimal, that it is signed with."""

    address: str = FEED_ADDRESS
    public_key: str = PUBLIC_KEY

    @property
    def configured(self) -> bool:
        """Whether there is anybody to ask."""
        try:
            host = urlsplit(self.address).hostname or ""
        except ValueError:
            return False
        return host != "" and not host.endswith(".invalid")
