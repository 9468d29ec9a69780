"""Connections of the server: sessions, appends and reads as frames. Sees `store` and `storage`."""
