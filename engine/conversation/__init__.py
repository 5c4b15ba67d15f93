"""A conversation with a pair: prompts in, events out."""
