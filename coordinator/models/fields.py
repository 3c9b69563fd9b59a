"""Column types that Django has no field for."""

from typing import TYPE_CHECKING, Any

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper

if TYPE_CHECKING:
    _Field = models.Field[int, int]
else:
    _Field = models.Field


class TransactionId(_Field):
    """The 64 bit id of a transaction, which never wraps: PostgreSQL's xid8."""

    def db_type(self, connection: BaseDatabaseWrapper) -> str:  # noqa: ARG002 (Django's signature)
        return "xid8"

    def from_db_value(self, value: str | None, *_args: Any) -> int | None:
        return None if value is None else int(value)

    def get_prep_value(self, value: Any) -> Any:
        return value if value is None or hasattr(value, "resolve_expression") else str(int(value))
