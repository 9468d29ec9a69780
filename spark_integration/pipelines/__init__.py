"""Streaming queries whose right answers are known: for the demo, the crash tests, and as examples."""
