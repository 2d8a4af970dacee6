"""Arithmetic that protocols share: integers in and out, rounded as the programs round."""
