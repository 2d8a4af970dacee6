"""The systems Soltape runs on."""
