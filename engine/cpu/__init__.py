"""Code that serves MLX's CPU backend alone, where Slipstream is developed and tested.

MLX is slow there at some parts of a pass, and computes quantized products again for each row.
Callers use it through `CpuBackend`, the `Backend` of this device: so nothing of it runs on a GPU,
nor in a test that sets `device.GPU` in place of `device.CPU`.
"""
