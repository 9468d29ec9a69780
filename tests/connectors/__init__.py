"""Tests of the connector protocol and of what speaks it."""
