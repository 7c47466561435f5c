"""What people look at: the command line and the local page."""
