"""What every server of the project needs, whatever protocol it speaks: sockets, TLS, tokens, limits, logs, metrics.

Nothing here knows a request, an object or a journal.
"""
