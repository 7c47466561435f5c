"""Sweeps: one fit for each outcome column, from second moments that all of them share."""
