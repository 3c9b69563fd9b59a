"""Every route of the console, for each role, in both themes and three widths (console design, check A).

Each is loaded by each role, and its width measured everywhere. axe takes its time: it looks at an administrator's page
in each width, in one theme and the other by turns, so that what pages share is seen in all six; and at the pages of
the others where they differ. With TENURE_LOOK=everywhere it looks at each page of each role in all six.

The routes are those of the URL configuration: a page that nobody has thought of here fails for want of an address.
"""

import os
from typing import Any, Final

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from tests.console.conftest import Open
from tests.console.looking import CORNERS, EVERYWHERE, look
from tests.console.scene import person
from tests.hostile.ground import Ground, compose_ground
from tests.snapshots import restored

pytestmark = pytest.mark.django_db(transaction=True)

PEOPLE: Final = {"admin": "adele", "operator": "oskar", "viewer": "vera"}
#: Routes that answer with another address to whoever is signed in; each has tests of its own.
SENT_ON: Final = frozenset({"find", "sign-in", "incident", "effect-settle"})
#: What has to stand in an address besides its path, for there to be a page.
QUERIES: Final = {"task-view-new": "?state=READY"}
THOROUGH: Final = os.environ.get("TENURE_LOOK") == "everywhere"
BY_TURNS: Final = (
    (("light", 1440), ("dark", 768), ("light", 320)),
    (("dark", 1440), ("light", 768), ("dark", 320)),
)
#: A page is looked at by one test of so many, so that processes share the work.
PARTS: Final = 8
#: The pages of the ground that was asked last: its ids stay the same as long as it is put back from one snapshot.
_asked: list[tuple[Ground, list[tuple[str, str]]]] = []


@pytest.fixture
def ground(transactional_db: None) -> Ground:
    return restored(compose_ground)


def own(user: Any) -> dict[str, dict[str, Any]]:
    """Routes that everybody has for themselves."""
    return {"person-token-new": {"user_id": user.pk}}


def pages(ground: Ground) -> list[tuple[str, str]]:
    """As `ask_for_pages` found them in this ground: asked once a process, and again where it is composed anew."""
    if not _asked or _asked[0][0] is not ground:
        _asked[:] = [(ground, ask_for_pages(ground))]
    elif not User.objects.filter(username=PEOPLE["admin"]).exists():
        person(PEOPLE["admin"], "admin")  # whoever asked is there after each asking
    return _asked[0][1]


def ask_for_pages(ground: Ground) -> list[tuple[str, str]]:
    """Name and address of each route that does not send a person on, give a file, or take a POST alone."""
    client = Client()
    user = person(PEOPLE["admin"], "admin")
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    found = []
    for name, address in Ground(ground.parts, ground.of | own(user)).addresses():
        asked = address + QUERIES.get(name, "")
        answer: Any = client.get(asked)
        if answer.status_code == 405 or name in SENT_ON:
            continue
        assert answer.status_code == 200, (name, asked, answer.status_code)
        if not answer.get("Content-Disposition", "").startswith("attachment"):
            assert answer["Content-Type"].startswith("text/html"), name
            if b"<!doctype html>" in answer.content[:400]:  # else a fragment, which pages ask for
                found.append((name, asked))
    return found


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_every_route_is_in_order_for_every_role(opened: Open, ground: Ground, part: int) -> None:
    seen: set[str] = set()
    faults = []
    chosen = pages(ground)[part::PARTS]
    for role, name in PEOPLE.items():
        user = User.objects.filter(username=name).first() or person(name, role)
        window = opened(user=user)
        for turn, (page, as_admin) in enumerate(chosen):
            places = EVERYWHERE if THOROUGH else BY_TURNS[turn % 2] if role == "admin" else CORNERS
            parts = own(user).get(page)
            address = reverse(f"console:{page}", kwargs=parts) if parts else as_admin
            statuses = (200,) if role == "admin" else (200, 403)
            found = look(
                window,
                address,
                statuses=statuses,
                places=places,
                seen=None if THOROUGH else seen,
                who=name,
            )
            faults += [f"{role}: {fault}" for fault in found]
        window.context.close()
    assert not faults, "\n".join(faults)
