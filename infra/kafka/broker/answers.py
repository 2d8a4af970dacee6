"""Requests and answers as `kio` has them: one data type for each version of each message.

A handler builds its answer with the fields that the version asked for has, so one handler
serves all versions of its request.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from types import ModuleType
from typing import Any

from kio.index import load_payload_module
from kio.static.constants import EntityType


@dataclass(frozen=True, slots=True)
class Client:
    """Who asks."""

    id: str
    host: str


@cache
def response_module(api_key: int, version: int) -> ModuleType:
    """Return the data types of a response."""
    return load_payload_module(api_key, version, EntityType.response)


def build(entity: Any, /, **values: Any) -> Any:
    """Return an entity with those of the values that its version has."""
    fields = entity.__dataclass_fields__
    return entity(**{name: value for name, value in values.items() if name in fields})


def answer(request: Any, entity: str, /, **values: Any) -> Any:
    """Return the response (or a part of it) that belongs to a request."""
    module = response_module(request.__api_key__, request.__version__)
    return build(getattr(module, entity), throttle_time=timedelta(), **values)
