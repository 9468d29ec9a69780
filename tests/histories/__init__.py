"""An independent judge of what clients saw: from journal/FORMAT.md and the file protocol's promises, no code of ours.

`log_bytes` reads segments, `checker` holds recorded histories against them. Nothing here imports the journal.
"""
