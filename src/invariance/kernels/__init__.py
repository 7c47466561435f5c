"""Arithmetic on plain arrays: compiled, in NumPy for small problems (`plain`), and for GPUs (`device`)."""
