"""Soltape itself: health, usage, rates of the tape."""
