"""Paths of wallets."""

from __future__ import annotations

from fastapi import APIRouter

from api.stores import Stores


def router(stores: Stores) -> APIRouter:
    """Return the paths of this area."""
    return APIRouter()
