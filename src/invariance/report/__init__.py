"""One self-contained page of a fit: the answer with its caveats, tables, pictures, and how it was
made."""
