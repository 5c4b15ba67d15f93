"""Drafts of other programs, which the benchmark runs beside ours."""
