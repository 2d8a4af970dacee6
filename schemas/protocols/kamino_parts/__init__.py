"""The parts of Kamino: each has its kinds, routes and reading."""
