"""Redis and ClickHouse as the readers see them, and the caches over them."""
