"""The value of a metric, through what prometheus_client exports."""

from typing import Any


def value_of(metric: Any) -> float:
    """Return the value of a counter or gauge without labels, or of one with its labels set."""
    [family] = metric.collect()
    value: float = family.samples[0].value
    return value
