"""Kinds of drafters that others train, which earned less here than a head: Medusa, and a block."""
