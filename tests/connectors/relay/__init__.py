"""The relay: its coordinator in every small world, its formats, its processes."""
