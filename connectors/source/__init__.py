"""The library for source connectors: streams of messages to a listener, resumed after whatever happens.

Uses `connectors.wire`, and dialling and retries of `sos_client`.
"""
