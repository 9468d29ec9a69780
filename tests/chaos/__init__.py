"""Crashes end to end: everything around a running query is killed at random, and its output compared with its input."""
