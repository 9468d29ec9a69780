"""The file protocol, pure: messages, their bytes, limits, and which answer fits which request. See ../PROTOCOL.md."""
