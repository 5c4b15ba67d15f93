"""Markdown as a document that grows while it is written. Knows no conversation."""
