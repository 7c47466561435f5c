"""From selected features to what is predicted in an environment that nobody has seen, and how far
that may be off."""
