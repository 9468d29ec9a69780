"""Sockets as both ends use them: plain streams, one poller, addresses, dialling. Sees `wire`."""
