"""Draws: proposed, scored, and kept with the uniform that decides on each."""
