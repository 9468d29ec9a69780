"""Stored data: the only place that opens, writes, syncs, renames and unlinks it. Imports nothing of the project."""
