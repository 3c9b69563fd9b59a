"""The checks that every story ends with."""

from tests.history import history_holds

__all__ = ["history_holds"]
