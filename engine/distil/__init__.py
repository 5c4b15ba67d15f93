"""A drafter distilled from a target: answers, training, measuring, and the folder they make."""
