"""Gives the rows of a short pass on a GPU the bits of rows alone: see README.md."""
