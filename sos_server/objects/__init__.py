"""The objects' own files: how they are read, and who may write to them when. Sees `storage`."""
