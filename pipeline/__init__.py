"""From the chain to facts."""
