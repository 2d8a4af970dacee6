"""The shapes of the answers: what OpenAPI documents, and what mypy holds the code to."""
