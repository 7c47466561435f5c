"""A self-contained page of a fit: the answer with its caveats, tables, plots, and the methods."""
