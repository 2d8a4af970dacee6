"""Kafka for subscribers: who has credentials, issuing and revoking them."""
