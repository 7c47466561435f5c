"""Predictions in a new environment, and their errors."""
