"""The engine on an NVIDIA GPU: a device that works beside the host, as a Mac's does."""
