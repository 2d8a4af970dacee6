"""Facts to answers: the REST API over what the pipeline has computed. Reads, never computes state."""
