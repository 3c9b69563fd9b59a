"""The drawings of the timeline as they were seen last, and what holds for each (console design, check P).

A drawing that changed on purpose is written anew by `python -m tests.console.stories`, and looked at.
"""

from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from playwright.sync_api import Browser

from tests.console.stories import FOLDER, STORIES, canonical, drawn

STATIC = Path(__file__).parent.parent.parent / "static" / "console"
WIDTH = 980
#: Texts that share some of their room, by their real boxes; half a pixel is a rounding.
_OVERLAPS = """() => {
  const box = (text) => text.getBoundingClientRect(), found = [];
  const texts = [...document.querySelectorAll('svg.timeline text')].filter((text) => text.textContent.trim());
  const frame = document.querySelector('svg.timeline').getBoundingClientRect();
  texts.forEach((one, place) => {
    const a = box(one);
    if (a.left < frame.left - .5 || a.right > frame.right + .5 || a.top < frame.top - 1 || a.bottom > frame.bottom + 1)
      found.push(`outside: ${one.textContent}`);
    for (const other of texts.slice(place + 1)) {
      const b = box(other);
      if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > .5
          && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 2.5)
        found.push(`${one.textContent} | ${other.textContent}`);
    }
  });
  return found;
}"""


@pytest.fixture(params=STORIES)
def story(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_it_is_drawn_as_it_was_seen_last(story: str) -> None:
    assert canonical(drawn(story)) == (FOLDER / f"{story}.svg").read_text()


def test_every_kept_drawing_has_its_story() -> None:
    assert {path.stem for path in FOLDER.glob("*.svg")} == set(STORIES)


def test_nothing_has_a_negative_length_or_lies_outside(story: str) -> None:
    svg = ET.fromstring(drawn(story))
    _, _, width, height = map(float, svg.attrib["viewBox"].split())
    assert width == WIDTH
    for rect in svg.iter("rect"):
        x, y, wide, high = (float(rect.get(name, "0")) for name in ("x", "y", "width", "height"))
        assert wide > 0, ET.tostring(rect)
        assert high > 0, ET.tostring(rect)
        if rect.get("class") not in ("m-staged", None):
            assert x >= 0, ET.tostring(rect)
            assert x + wide <= width, ET.tostring(rect)
            assert 0 <= y <= y + high <= height, ET.tostring(rect)
    for line in svg.iter("line"):
        assert all(0 <= float(line.attrib[name]) <= width for name in ("x1", "x2"))
        assert float(line.attrib["x1"]) <= float(line.attrib["x2"]), ET.tostring(line)
        assert all(0 <= float(line.attrib[name]) <= height for name in ("y1", "y2"))


@pytest.mark.browser
def test_no_words_cover_each_other_or_leave_the_drawing(browser: Browser) -> None:
    """Measured where they are set: in a browser, with our styles, as wide as the drawing is thought."""
    page: Any = browser.new_page(viewport={"width": 1200, "height": 900})
    styles = "".join((STATIC / name).read_text() for name in ("tokens.css", "drawings.css"))
    found = {}
    for name in STORIES:
        page.set_content(
            f"<style>{styles} .drawing {{ width: 1012px }}</style><div class=drawing>{drawn(name)}</div>"
        )
        if covered := page.evaluate(_OVERLAPS):
            found[name] = covered
    page.close()
    assert not found, "\n".join(f"{name}: {covered}" for name, covered in found.items())
