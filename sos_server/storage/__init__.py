"""What lies on a server's disk, as bytes and as facts. Pure: no file, no clock. See STORAGE.md."""
