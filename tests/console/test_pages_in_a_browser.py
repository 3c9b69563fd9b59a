"""Pages besides those of test_every_route, in a real browser: accessible, within their width, without an error."""

from typing import Any
from uuid import UUID

import pytest

from tests.console.conftest import Open
from tests.console.looking import look
from tests.console.scene import Scene

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.browser]

#: What the routes show besides, by other addresses.
VARIANTS = (
    "/tasks?state=READY&queue=review",
    "/tasks?state=nonsense",
    "/tasks?owner=nobody",
    "/runs/{run}?unfold=1",
    "/tasks/{fenced}",
    "/tasks/{failed}",
    "/tasks/{cancelled}",
    "/tasks/{bumped}",
    "/tasks/bulk/{bulk_job}",
    "/numbers/ready_to_commit?hours=6",
    "/audit?refused=only&kind=REFUSED&queue=review",
    "/audit?actor=nobody",
    "/workers?pool=green&queue=nightly",
    "/credentials?revoked=1",
    f"/tasks/{UUID(int=0)}",
)


def test_what_routes_show_besides_is_in_order(opened: Open, scene: Scene, admin: Any) -> None:
    window = opened(user=admin)
    known = {name: getattr(scene, name) for name in Scene.__dataclass_fields__}
    addresses = [each.format(run=scene.review.run_id, **known) for each in VARIANTS]
    faults = [fault for address in addresses for fault in look(window, address)]
    assert not faults, "\n".join(faults)


def test_a_viewers_controls_are_locked_and_say_why(opened: Open, scene: Scene, viewer: Any) -> None:
    window = opened(user=viewer)
    window.page.goto(f"/tasks/{scene.held}/cancel")
    assert window.page.is_disabled("#decision button")
    assert "You may not cancel, revise and reopen tasks" in window.page.inner_text("#why-not")


def test_the_doorway_is_in_order(opened: Open, transactional_db: None) -> None:
    faults = look(opened(), "/sign-in")
    assert not faults, "\n".join(faults)
