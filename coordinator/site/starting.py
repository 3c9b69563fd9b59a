"""What a web process does once, before its first request."""

import structlog
from django.db import DatabaseError, connection
from psycopg_pool import PoolTimeout

from coordinator.services.identity import confirm_identity

log = structlog.get_logger("tenure.identity")


def compare_identity() -> None:
    """Compare the database with what is kept outside of it; why intake is held goes to the log."""
    try:
        hold = confirm_identity()
    except (DatabaseError, PoolTimeout) as error:
        log.warning("identity not compared yet", because=type(error).__name__)
        return
    finally:
        connection.close()
    if hold:
        log.error("intake is held", because=hold)
