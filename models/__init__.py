"""Which models there are, where their files are, whether a pair fits. No Qt, no inference."""
