"""Engines: from a target p(z) Λ(z) (prior × likelihood ratio) to a posterior."""
