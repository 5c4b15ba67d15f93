"""What serves MLX's CPU backend alone, where Slipstream is developed and tested.

MLX is slow there at some of what a pass does, and computes quantized products anew for each row.
Whoever uses these modules asks `device.backend` first, so that on a GPU none of them is called, and
none where a test sets `device.GPU` in the place of `device.CPU`.
"""
