"""Volumes that are spread over shards, read from their logs: what there is, what belongs together. Sees `copies`."""
