"""The replicated write-ahead journal of a tree of files."""
