"""Arithmetic on plain arrays: compiled, and for GPUs (`device`)."""
