"""Which target answers, which drafter guesses and how far ahead; getting models."""
