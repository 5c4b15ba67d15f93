"""The trained model and its answers that the distiller's own tests use."""

from tests.engine.distil.conftest import cpu, not_nicer, stories, story_answers

__all__ = ["cpu", "not_nicer", "stories", "story_answers"]
