"""Every page in a language that nobody speaks: nothing is left untranslated, nothing is too long, right to left too.

Console design, check M.
"""

import re
from pathlib import Path
from typing import Any, Final

import pytest
from django.conf import LazySettings
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client

from tests.console.conftest import Open
from tests.console.looking import WIDTHS, too_wide
from tests.console.pseudo import CODE, Unwrapped, plain_words, write_catalogue
from tests.console.test_every_route import PEOPLE, ground, pages  # noqa: F401 (a fixture)
from tests.emptying import tables_of_tests
from tests.hostile.ground import Ground

pytestmark = pytest.mark.django_db(transaction=True)

#: Names that are the same in every language: of the product, protocols and points of the guard; and Django's word.
SAME_EVERYWHERE: Final = {
    "Tenure",
    *("smtp", "git", "http", "sql", "mcp"),
    *("redeem", "reconcile"),
    "bytes",
}
PARTS: Final = 4


@pytest.fixture
def speaking(settings: LazySettings, tmp_path: Path) -> LazySettings:
    """The language is there to be chosen, from left to right."""
    write_catalogue(tmp_path)
    settings.LANGUAGES = [*settings.LANGUAGES, (CODE, CODE)]
    settings.LOCALE_PATHS = [*settings.LOCALE_PATHS, tmp_path]
    return settings


def known_words() -> set[str]:
    """Every word that stands in the database: names, reasons and inputs are nobody's to translate."""
    texts = []
    with connection.cursor() as cursor:
        for table in [*tables_of_tests(), "auth_group"]:
            cursor.execute(f"SELECT string_agg(t::text, ' ') FROM \"{table}\" AS t")
            texts += [row[0] for row in cursor.fetchall() if row[0]]
    return set(re.findall(r"[^\W\d_]{2,}", " ".join(texts)))


def test_no_page_has_a_text_that_was_never_given_to_translators(
    client: Client,
    ground: Ground,  # noqa: F811
    speaking: LazySettings,
) -> None:
    addresses = pages(ground)
    client.force_login(
        User.objects.get(username=PEOPLE["admin"]),
        backend="django.contrib.auth.backends.ModelBackend",
    )
    client.cookies[speaking.LANGUAGE_COOKIE_NAME] = CODE
    known = (
        known_words()
        | SAME_EVERYWHERE
        | {CODE, speaking.ENVIRONMENT, *(name for _, name in speaking.LANGUAGES)}
    )
    left = {}
    for name, address in addresses:
        page = client.get(address).content.decode()
        assert f'lang="{CODE}"' in page, address
        texts = [text for text in Unwrapped.of(page) if plain_words(text) - known]
        if texts:
            left[name] = sorted(set(texts))
    assert not left, "\n".join(f"{name}: {texts}" for name, texts in left.items())


@pytest.mark.browser
@pytest.mark.parametrize("part", range(PARTS))
def test_long_words_and_right_to_left_stay_within_the_window(
    opened: Open,
    ground: Ground,  # noqa: F811
    speaking: LazySettings,
    live_server: Any,
    part: int,
) -> None:
    speaking.LANGUAGES_BIDI = [CODE]
    chosen = pages(ground)[part::PARTS]
    window = opened(user=User.objects.get(username=PEOPLE["admin"]))
    page = window.page
    cookie: Any = {"name": speaking.LANGUAGE_COOKIE_NAME, "value": CODE, "url": live_server.url}
    window.context.add_cookies([cookie])
    faults = []
    for _, address in chosen:
        page.goto(address)
        assert page.evaluate("document.documentElement.dir") == "rtl", address
        for direction in ("rtl", "ltr"):
            page.evaluate(f"document.documentElement.dir = '{direction}'")
            for width in WIDTHS:
                page.set_viewport_size({"width": width, "height": 800})
                faults += [f"{address} {direction} {width}: {each}" for each in too_wide(page)]
    faults += [*window.faults, *window.violations()]
    assert not faults, "\n".join(faults)
