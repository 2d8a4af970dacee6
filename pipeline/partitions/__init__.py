"""Raising the partitions of the settled lanes: `infra/kafka/README.md` has the procedure."""
