"""Which target answers, which drafter guesses and how far ahead; the Library of models."""
