"""How often the passages of a message hold the answer to its question."""
