"""Chooses the target, its drafter and the draft length; the Library of models."""
