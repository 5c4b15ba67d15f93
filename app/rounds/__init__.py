"""The rounds of an answer: what was guessed, what stood, and how it is shown."""
