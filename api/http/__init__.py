"""HTTP itself: protocol, bounds, problems, replies, the access log."""
