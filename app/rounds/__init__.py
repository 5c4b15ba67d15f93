"""The rounds of an answer: their drafts and verdicts, and how they are shown."""
