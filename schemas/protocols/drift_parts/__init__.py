"""The parts of Drift: layouts, what positions are worth, margin, insurance stakes and fuel."""
