"""Who may ask, and how much: keys, plans, credits, rates."""
