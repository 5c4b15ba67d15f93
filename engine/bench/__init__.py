"""`slipstream bench`: Slipstream, plain decoding and mlx-lm, side by side in one process.

`run.py` is the front door. Knows the engine from outside, as any caller does.
"""
