"""The file protocol: what the shim in the JVM and the journal service say to each other. See PROTOCOL.md."""
