"""Threads, progress bars, files and words: nothing here knows what the package is about."""
