"""The command line: commands, console output and advice in the terms of its options."""
