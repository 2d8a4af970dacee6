"""What a token's URI says of it, fetched off the request path, and its image."""
