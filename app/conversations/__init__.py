"""Conversations on disk: a tree of messages each, in one SQLite file. No Qt."""
