"""Engines: a target (conditional model × prior) in, a posterior out."""
