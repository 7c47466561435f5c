"""The local page: a table in, choices by clicking, the report out. It is served to this machine
alone."""
