"""What lies in deploy/: each file with the real tool, where there is one, and its commands as real processes."""
