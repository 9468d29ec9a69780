"""Sinks: programs that take rows in two phases. `serve_sink` keeps protocol and log, the rest is the program's."""
