"""The connector protocol, version 3, for all four roles. Pure; of the project it uses framing and errors only."""
