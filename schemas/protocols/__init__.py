"""Protocols whose accounts Soltape keeps: one file each.

To add a protocol, add its file, name it in `registry`, give it a slug in `slugs.toml` and its
program a number in `programs.toml`. Subscription, routes, OpenAPI and answers follow.
"""
