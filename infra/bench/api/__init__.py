"""What the API costs: seeded data in real stores, load from a package, a bare route beside it."""
