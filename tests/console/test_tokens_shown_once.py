"""A token or a code stands in one answer, once, and then in no page, file, log or row (console design, check L)."""

import logging
import re
from collections.abc import Iterator
from typing import Any, Final

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client

from tests.console.test_every_form import EVERY, SHOWN_ONCE, Case, fresh, sheet
from tests.console.test_every_form import adapters as adapters  # noqa: PLC0414 (a fixture)
from tests.hostile.ground import Ground, enter

pytestmark = pytest.mark.django_db(transaction=True)

SHOWN: Final = re.compile(r"data-token>.*?<code>([^<]+)</code>", re.DOTALL)
FORMS: Final = {case.route: case for case in EVERY if case.route in SHOWN_ONCE}
#: Those whose level an operator sets; Django's own stay at WARNING, since its templates tell what they are given.
LOGGERS: Final = ("tenure", "coordinator", "console")
#: Besides the pages of the console: files of the audit, the admin's lists, and what the API tells of them.
ELSEWHERE: Final = (
    "/audit?q=",
    "/audit/export.ndjson",
    "/audit/export.csv",
    "/credentials?revoked=1",
    "/admin/coordinator/credential/",
    "/admin/coordinator/operatortoken/",
    "/admin/coordinator/event/",
)


def stored() -> str:
    """Every row of every table of ours and of Django's, as text."""
    told = []
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f'SELECT t::text FROM "{table}" t')
            told += [row[0] for row in cursor.fetchall()]
    return "\n".join(told)


def shown_afterwards(client: Client, ground: Ground, user: User) -> Iterator[tuple[str, str]]:
    """Each page and file that an administrator can open, with its text."""
    own = Ground(ground.parts, ground.of | {"person-token-new": {"user_id": user.pk}})
    for address in (*(found for _name, found in own.addresses()), *ELSEWHERE):
        answer: Any = client.get(address)
        if address in ELSEWHERE:
            assert answer.status_code == 200, address
        body = b"".join(answer.streaming_content) if answer.streaming else answer.content
        yield address, body.decode(errors="replace")


def used(token: str) -> None:
    """The token works, and one beside it does not; the server has read both."""
    for text, allowed in ((token, (200, 403)), (f"{token[:-8]}{'0' * 8}", (401,))):
        asked = Client().get("/api/v1/queues", headers={"Authorization": f"Bearer {text}"})
        assert asked.status_code in allowed


def shown_by(client: Client, case: Case, ground: Ground, user: User) -> str:
    """What this form shows, once; sent again, as by a reload, it is shown no more."""
    form, sent = sheet(client, case, ground, case.before(ground, user))
    answer: Any = client.post(form.action, sent)
    page = answer.content.decode()
    (shown,) = SHOWN.findall(page)
    secret = str(shown).rpartition("_")[2]  # of a code, the whole
    assert page.count(secret) == 1, "in an attribute too, or in a command"
    assert "no-store" in answer["Cache-Control"]
    if shown != secret:
        used(shown)
    again = client.post(form.action, sent)
    assert (again.status_code, secret in again.content.decode()) == (200, False)
    return secret


def test_a_token_is_in_one_answer_and_nowhere_else(
    transactional_db: None, caplog: pytest.LogCaptureFixture
) -> None:
    ground, user, _ = fresh()
    client = enter(Client(), user)
    for logger in LOGGERS:
        caplog.set_level(logging.DEBUG, logger=logger)
    secrets = {name: shown_by(client, case, ground, user) for name, case in FORMS.items()}
    assert len(set(secrets.values())) == len(FORMS) > 4
    places = dict(shown_afterwards(client, ground, user)) | {
        "the database": stored(),
        "the logs": "\n".join(f"{line.getMessage()} {line.__dict__}" for line in caplog.records),
        "cookies": "".join(morsel.OutputString() for morsel in client.cookies.values()),
    }
    assert "tenure.http" in {line.name for line in caplog.records}, "nothing is listened to"
    found = [
        (name, place)
        for name, secret in secrets.items()
        for place, text in places.items()
        if secret in text
    ]
    assert found == []
