"""How many tokens the engine reads and drafts at once, and how many it remembers.

The engine keeps to these numbers, and `models.memory.fit` reckons with the same ones. Knows numbers
only.
"""

LONGEST_DRAFT = 16
"""Tokens of a chain that a drafter guesses."""

LARGEST_TREE = 64
"""Tokens of a tree."""

LONGEST_COPY = LARGEST_TREE
"""Tokens of a copy, once that much of it stood."""

ROUND_ROWS = max(LONGEST_DRAFT, LARGEST_TREE, LONGEST_COPY) + 1
"""Rows of the largest pass that verifies a draft: the draft, and the token before it."""

FEW_ROWS = LONGEST_DRAFT + 1
"""Rows of a pass that a GPU can compute with the bits of each row alone: see engine.metal."""

PREFILL_ROWS = 512
"""Tokens of a prompt in one pass, of the target and of drafters."""

CACHE_BLOCK = 128
"""Positions by which caches grow on the CPU, and windows everywhere."""

BOOKMARKS = 4
"""Ends of prompts at which caches that cannot be cut are copied."""

RECORDED = 2048
"""Positions whose hidden states are kept for a drafter."""

BLOCK_CONTEXT = 4096
"""Context positions that a block drafter sees: with more, published drafters are accepted less."""

SPARE_CONTEXT = 1024
"""Positions that a block drafter keeps in addition, so that a little can be taken back. It keeps at
most twice as many before it cuts them."""
