"""An attribute that is worked out when it is first asked for, and kept.

`functools.cached_property` does the same, but takes a lock on every first access (until
Python 3.12): one part in fifteen of a transaction's decoding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

Owner = TypeVar("Owner")
Value = TypeVar("Value")


class lazy(Generic[Owner, Value]):  # noqa: N801 - used as a decorator
    """Turn a method into an attribute; not for use from several threads."""

    def __init__(self, work_out: Callable[[Owner], Value]) -> None:
        self._work_out = work_out
        self._name = work_out.__name__
        self.__doc__ = work_out.__doc__

    def __get__(self, owner: Owner, kind: type[Owner]) -> Value:
        value = owner.__dict__[self._name] = self._work_out(owner)
        return value
