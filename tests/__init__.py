"""The tests: a package, so that folders whose fixtures end with them have names of their own."""
