"""From transactions to events: what is common to all venues."""
