"""The rounds of an answer: what was drafted, what the target made of it, and how both are shown."""
