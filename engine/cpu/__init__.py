"""Code that serves MLX's CPU backend alone, where Slipstream is developed and tested.

MLX is slow there at some parts of a pass, and computes quantized products anew for each row.
Callers ask `device.backend` first, so none of these modules is used on a GPU, nor in a test that
sets `device.GPU` in place of `device.CPU`.
"""
