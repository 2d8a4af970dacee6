"""Sign-in with OpenID Connect, and what an account's page shows and changes."""
