"""Parity: our drafters' networks against other people's, on tiny random weights. See README.md."""
