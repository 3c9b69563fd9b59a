"""Looking at a page as a person would: in every width and theme, and for what keeps people out."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from playwright.sync_api import Page

from tests.console.conftest import Watched

WIDTHS: Final = (320, 768, 1440)
THEMES: Final = ("light", "dark")
EVERYWHERE: Final = tuple((theme, width) for width in reversed(WIDTHS) for theme in THEMES)
CORNERS: Final = (("light", 1440), ("dark", 320))
#: What differs between two renderings of one document: where it stands, keys of forms, ids, moments and counts.
_PASSING: Final = re.compile(
    r' aria-current="page"|<title>[^<]*|name="next" value="[^"]*"|less than a minute'
    r"|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[A-Za-z0-9]{64}|[0-9a-f]{12,}|\d+(?: min)?"
)


def too_wide(page: Page) -> list[str]:
    """What makes the page scroll to the side, if it does."""
    found: list[str] = page.evaluate(
        "document.documentElement.scrollWidth <= innerWidth ? [] : [...document.querySelectorAll('body *')]"
        ".filter(e => { const box = e.getBoundingClientRect();"
        " return (box.right > innerWidth + 1 || box.left < -1) && !e.closest('.drawing, .payload, .tabs') })"
        ".slice(0, 4).map(e => `${e.tagName}.${e.className}`).concat('the page')"
    )
    return found


def look(
    window: Watched,
    address: str,
    *,
    statuses: Iterable[int] = (200, 403, 404, 409, 422),
    places: Sequence[tuple[str, int]] = CORNERS,
    seen: set[str] | None = None,
    who: str = "",
) -> list[str]:
    """What is wrong with a page: one load, every theme and width, axe at the `places`.

    A document that is among the `seen`, but for its digits and for `who` looks at it, is not given to axe again.
    """
    page = window.page
    answer = page.goto(address)
    assert answer is not None
    faults = [] if answer.status in statuses else [f"answers {answer.status}"]
    known = _is_known(page, seen, who)
    for theme, width in EVERYWHERE:
        page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
        page.set_viewport_size({"width": width, "height": 640 if width == 320 else 900})
        faults += [f"{theme} {width}: wider than the window: {name}" for name in too_wide(page)]
        if not known and (theme, width) in places:
            faults += [f"{theme} {width}: {fault}" for fault in window.axe()]
    faults += [*window.faults, *window.violations()]
    window.faults.clear()
    return [f"{address} {fault}" for fault in faults]


def _is_known(page: Page, seen: set[str] | None, who: str) -> bool:
    """Whether both the page's own part and the frame around it were seen before."""
    if seen is None:
        return False
    names = re.compile(rf"\b{re.escape(who)}\b|>{re.escape(who[:2])}<")
    document = names.sub(">who<", _PASSING.sub("0", page.content()))
    before, found, own = document.partition('<main id="main"')
    parts = {before, own} if found else {document}
    known = parts <= seen
    seen |= parts
    return known
