"""Measures the catalog against what others publish."""
