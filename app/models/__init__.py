"""Which target answers, which drafter drafts for it and how far; the Library of models."""
