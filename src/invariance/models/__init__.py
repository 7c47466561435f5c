"""Models of the outcome given a subset: how invariant it is, and how well it predicts."""
