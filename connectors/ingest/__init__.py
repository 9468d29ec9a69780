"""What a listener keeps of what it receives: an ingest volume, its format, and who has read how far.

Uses `connectors.wire` and a volume of `journal`.
"""
