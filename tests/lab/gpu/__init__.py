"""The engine on a GPU, a Mac's or NVIDIA's: a device that works beside the host."""
