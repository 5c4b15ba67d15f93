"""One round: sampling, acceptance, a target that reads and takes back. Knows token ids alone."""
