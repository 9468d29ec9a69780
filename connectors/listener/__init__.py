"""`sos-connector listen`: takes what source connectors send into an ingest volume, and serves its files.

Uses `connectors.wire`, `connectors.ingest`, the journal's service, and the sockets of `sos_client.serving`.
"""
