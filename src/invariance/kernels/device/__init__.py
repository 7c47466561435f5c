"""Torch twins of kernels, for many outcomes at once on a GPU; nothing here is imported before a
device is asked for."""
