"""What a person who runs a volume sees: the numbers behind the page, from a running service or from the servers alone.

Reads everything, changes nothing. Sees all layers but `cli`.
"""
