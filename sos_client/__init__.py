"""The SOS client, and the wire protocol that both ends speak."""
