"""The tables as they are, for whoever is on call: read, found by their keys, and a few deeds by the same services."""

from . import people, work
from .tables import register_tables

register_tables()

__all__ = ["people", "work"]
