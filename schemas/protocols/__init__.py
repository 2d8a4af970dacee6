"""Protocols whose accounts Soltape keeps: one file each.

To add a protocol, add its file, give it a slug in `slugs.toml` and its program a number in
`programs.toml`. Subscription, routes, OpenAPI and answers follow. `aggregates.toml` says which
routes are answered together.
"""
