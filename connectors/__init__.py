"""Wallaroo's connector protocol: replayable producers in, two-phase-commit consumers out."""
