"""A drafter distilled from a target: it answers, a head learns from the answers, the best is kept."""
