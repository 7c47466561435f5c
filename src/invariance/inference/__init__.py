"""Engines: a target (family × prior) in, a posterior out."""
