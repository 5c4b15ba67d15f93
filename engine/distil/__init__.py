"""A drafter distilled from a target: it answers, a head learns from that, the best is kept."""
