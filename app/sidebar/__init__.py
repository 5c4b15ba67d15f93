"""The list of conversations, with a search and an undo for deletions."""
