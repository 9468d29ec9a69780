"""Plain directories of the user's: into a volume, and out of it. Sees `records` and `checkpoint`."""
