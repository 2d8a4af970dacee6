"""The API: a package, for its stores serve all of its tests, and end after them."""
