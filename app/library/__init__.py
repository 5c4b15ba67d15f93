"""Which models there are, here and on the hub: looking, fetching, pairing, disk."""
