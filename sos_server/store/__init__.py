"""The store: the commit log, its copying, and what clients may do to objects. Sees `objects` and `storage`."""
