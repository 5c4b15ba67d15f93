"""Everything that can be told of a bundle without a Mac, each in a check of its own."""
