"""Drafters that others have trained: one table of how they are published, for all who read it."""
