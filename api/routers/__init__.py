"""One file an area of paths: take the request apart, ask a reader, reply."""
