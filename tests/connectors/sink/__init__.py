"""Sinks: their log, their rules, the library, the commands."""
