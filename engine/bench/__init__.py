"""`slipstream bench`: Slipstream, plain decoding and mlx-lm, side by side in one process.

Begin with `run.py`. Uses the engine from outside, as any caller does.
"""
