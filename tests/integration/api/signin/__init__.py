"""A package, for what its tests share ends after them."""
