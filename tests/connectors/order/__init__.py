"""Tests of connectors/order."""
