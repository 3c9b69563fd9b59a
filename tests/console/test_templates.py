"""What no template and no script may have in it: the content security policy would stop it, or should."""

import re
from pathlib import Path

import pytest

from console.looks import EVENT_LOOKS, LOOKS
from console.templatetags.console import icon

ROOT = Path(__file__).parent.parent.parent
TEMPLATES = sorted((ROOT / "templates").rglob("*.html"))
SCRIPTS = sorted((ROOT / "static" / "console").rglob("*.js"))
STYLES = sorted((ROOT / "static" / "console").glob("*.css"))

FORBIDDEN = {
    "an inline style": r"\sstyle\s*=",
    "an inline script": r"<script(?![^>]*\ssrc=)[^>]*>",
    "an inline handler": r"\son[a-z]+\s*=\s*[\"']",
    "hx-on": r"hx-on",
    "javascript in hx-vals": r"hx-(?:vals|headers)\s*=\s*[\"']js:",
    "a trigger filter, which needs eval": r"hx-trigger=[\"'][^\"']*\[",
    "a style element": r"<style",
    "another host": r"(?:src|href|action)=[\"'](?:https?:)?//",
    "free text without masks": (
        r"\.(?:\w+_)?(?:reason|comment|note|detail|probe|link)(?:\|default:[^|}]*)?\|visible(?:_lines)?(?!\w)"
    ),
    "unescaped text": r"\|\s*safe\b|autoescape off",
    "a remote form": r"<form[^>]*action=[\"']http",
}


def texts(paths: list[Path]) -> list[tuple[str, str]]:
    return [(str(path.relative_to(ROOT)), path.read_text()) for path in paths]


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_template_has(what: str) -> None:
    found = [
        name for name, text in texts(TEMPLATES) if re.search(FORBIDDEN[what], text, re.IGNORECASE)
    ]
    assert TEMPLATES
    assert not found


@pytest.mark.parametrize(
    "pattern",
    [
        r"\beval\(",
        r"new Function",
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write",
        r"https?://",
    ],
)
def test_no_script_has(pattern: str) -> None:
    found = [name for name, text in texts(SCRIPTS) if re.search(pattern, text)]
    assert SCRIPTS
    assert not found


def test_no_style_sheet_loads_from_elsewhere() -> None:
    found = [
        name
        for name, text in texts(STYLES)
        if re.search(r"url\([\"']?(?:https?:)?//|@import", text)
    ]
    assert STYLES
    assert not found


def test_every_form_that_changes_something_has_its_token() -> None:
    without = [
        name
        for name, text in texts(TEMPLATES)
        for form in re.findall(r"<form[^>]*method=[\"']post[\"'][^>]*>.*?</form>", text, re.DOTALL)
        if "{% csrf_token %}" not in form
    ]
    assert not without


def test_colours_stand_in_the_tokens_alone() -> None:
    found = [
        (name, colour)
        for name, text in texts(STYLES)
        if not name.endswith("tokens.css")
        for colour in re.findall(
            r"#[0-9a-f]{3,8}\b", re.sub(r"url\([^)]*\)", "", text), re.IGNORECASE
        )
    ]
    assert not found


def test_each_look_has_an_icon_that_there_is() -> None:
    for word, look in {**LOOKS, **EVENT_LOOKS}.items():
        assert "<svg" in icon(look.icon, 12), word
