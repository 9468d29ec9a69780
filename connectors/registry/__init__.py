"""Which of several listeners has which stream: a log of claims in a volume that all of them see. FORMAT.md has it.

Uses a volume of `journal`, and errors of `connectors`.
"""
