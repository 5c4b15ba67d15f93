"""Whether a pair has room in this machine, reckoned from configs and headers alone."""
