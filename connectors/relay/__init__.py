"""The relay: rows that Spark's tasks stage, given to K sinks under one decision that is durable on a volume.

STAGING.md is what Spark's sink speaks with it, docs/two-phase-commit.md why nothing is lost or doubled.
"""
