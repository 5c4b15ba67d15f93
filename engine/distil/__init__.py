"""Distils a drafter: the target answers prompts, a head learns from them, the best is kept."""
