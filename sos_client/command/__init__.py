"""What the commands `sos`, `sos-server`, `sos-journal` and `sos-connector` have in common.

Options and what they come to, how results look, exit codes, the way in and the way out. Nothing here knows a verb.
"""
