"""The list of conversations, with its search and its undo."""
