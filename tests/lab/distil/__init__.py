"""Drafters that lose to the head when both learn from the same answers: Medusa's, and blocks."""
