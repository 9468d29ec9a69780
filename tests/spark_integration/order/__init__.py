"""Tests of spark_integration/order."""
