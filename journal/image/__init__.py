"""The tree of files that records make, and what may be changed in it. Pure values; sees `records`."""
