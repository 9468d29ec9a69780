"""The wire protocol, pure: no sockets, no clock, no file. See PROTOCOL.md beside this file."""
