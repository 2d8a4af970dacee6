"""Facts to answers: the REST API over what the pipeline computed. Reads, never computes state."""
