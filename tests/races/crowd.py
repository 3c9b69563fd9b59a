"""Many at once: real threads with connections of their own, let go together."""

import threading
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import quote

from django.db import connection

from tests.world import UNHURRIED

T = TypeVar("T")


def at_once(*calls: Callable[[], T]) -> list[T]:
    """Each call in a thread of its own, all let go at a barrier once every one has its connection.

    The answers in the order of the calls; the first error of any is raised.
    """
    barrier = threading.Barrier(len(calls))
    answers: list[Any] = [None] * len(calls)
    errors: list[BaseException] = []

    def run(index: int, call: Callable[[], T]) -> None:
        try:
            with connection.cursor() as cursor:
                cursor.execute(UNHURRIED)  # until the pool gets it back
            barrier.wait(120)
            answers[index] = call()
        except BaseException as error:  # noqa: BLE001 - raised again by whoever let us go
            errors.append(error)
            barrier.abort()
        finally:
            connection.close()  # back to the pool

    threads = [
        threading.Thread(target=run, args=(index, call), daemon=True)
        for index, call in enumerate(calls)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(240)
        assert not thread.is_alive(), "a call never came back"
    if errors:
        raise next(
            (e for e in errors if not isinstance(e, threading.BrokenBarrierError)), errors[0]
        )
    return answers


def database_url() -> str:
    """The test database's address, for a process of its own."""
    at = connection.settings_dict
    host, port = quote(str(at["HOST"]), safe=""), f":{at['PORT']}" if at["PORT"] else ""
    account = quote(str(at["USER"])) + (f":{quote(str(at['PASSWORD']))}" if at["PASSWORD"] else "")
    return f"postgresql://{account}@{host}{port}/{at['NAME']}"
