"""`slipstream models` and `slipstream convert`."""
