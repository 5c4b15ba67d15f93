"""Whether a pair fits in this machine's memory, computed from configs and headers alone."""
