"""Arithmetic that several protocols share."""
