"""The store: files, the commit log, and what clients may do to objects. Sees `storage`."""
