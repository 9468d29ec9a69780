"""The append-only object server."""
