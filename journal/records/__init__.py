"""What the log is made of: records, segments, members, the rules of one history. Sees the top level only."""
