"""A volume behind a journal service: the client's side of the file protocol."""
