"""The dashboard and the route that serves it."""
