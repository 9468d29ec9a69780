"""Crashes end to end: producers, listener, Spark, relay and sinks are killed at random, and the sinks' rows judged."""
