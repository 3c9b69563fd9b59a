"""The gallery of the documentation: no page of the console is left out of it, and each picture is there."""

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from django.urls import resolve

from console.urls import urlpatterns
from tests.console import screenshots
from tests.console.album import NO_PAGES, Album, Shown, before_the_incident, during_an_incident

GALLERY = Path(__file__).parent.parent.parent / "docs" / "screenshots"


class AnyIds:
    """A world in which everything has an id."""

    approver = 1

    @property
    def review(self) -> "AnyIds":
        return self

    def __getattr__(self, name: str) -> Any:
        return uuid4()


def album() -> Album:
    ids: Any = AnyIds()
    shown = Shown(
        scene=ids,
        desk=ids,
        round_id=uuid4(),
        shadowed="mailroom",
        request_id=uuid4(),
        audit_id=uuid4(),
        token_id=1,
        reader=1,
    )
    return {**before_the_incident(shown), **during_an_incident(uuid4())}


def test_every_page_of_the_console_is_photographed() -> None:
    paths = [path for chapter in album().values() for path in chapter.values()]
    shown = {resolve(urlsplit(path).path).url_name for path in paths}
    assert {route.name for route in urlpatterns} - shown == NO_PAGES


def test_the_gallery_shows_each_page_and_has_each_picture() -> None:
    told = (GALLERY / "README.md").read_text()
    assert told == screenshots.told(album())
    wanted = {
        f"{name}-{scheme}-{width}.webp"
        for chapter in album().values()
        for name in chapter
        for scheme, width in screenshots.GALLERY
    } | {f"{name}.webp" for name in screenshots.ALSO}
    assert {path.name for path in GALLERY.glob("*.*")} == wanted | {"README.md"}
