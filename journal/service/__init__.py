"""The journal service as a process: it keeps volumes, and puts the gateway on sockets. Sees `gateway`, `takeover`."""
