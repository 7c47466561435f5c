"""Rows that stay where they are: files, folders, streams and databases, as Arrow record batches."""
