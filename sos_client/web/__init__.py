"""HTTP for the people and programs that watch a server: health, metrics, status, events and the page, all read-only.

Which numbers there are is the business of the server that gives them (`status_source`). Sees `serving` and `net`.
"""
