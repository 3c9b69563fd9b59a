"""What a web process does once, before its first request."""

import gc
from typing import Final

import structlog
from django.db import DatabaseError, connection
from django.urls import URLResolver, get_resolver
from psycopg_pool import PoolTimeout

from coordinator.services.identity import confirm_identity

#: So many more objects than were freed, before the collector looks at the young ones; a batch of a hundred makes some
#: thousands.
YOUNG: Final = 10_000

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


def settle_in() -> None:
    """Load what the first request would have to wait for, and keep the collector away from all that stays.

    A full collection looks at every object there is. With the modules among them it stops a process for a tenth of a
    second, every few seconds of load; without them, for a few milliseconds. And what a batch makes is gone by itself
    at its end: looking at it in between finds nothing.
    """
    load_every_route(get_resolver())
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, 10, 10)


def load_every_route(resolver: URLResolver) -> None:
    for each in resolver.url_patterns:
        if isinstance(each, URLResolver):
            load_every_route(each)
