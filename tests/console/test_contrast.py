"""The colours of tokens.css: text that can be read, marks that can be told apart, in both themes.

Thresholds: WCAG 2.2 (4.5 for text, 3 for graphics); colour-vision deficiency by the matrices
of Machado, Oliveira and Fernandes (2009) at severity 1, differences in CIE 1976 (ΔE*ab).
"""

import re
from collections.abc import Iterator
from itertools import combinations, product
from pathlib import Path
from typing import Final

import pytest

TOKENS = Path(__file__).parent.parent.parent / "static" / "console" / "tokens.css"
TONES = (
    "ready",
    "leased",
    "prepared",
    "unknown",
    "approval",
    "commit",
    "fenced",
    "failed",
    "expired",
)
SURFACES = ("bg", "s1")
MACHADO = {
    "protan": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deutan": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
}


def themes() -> dict[str, dict[str, str]]:
    found = re.findall(
        r"--([a-z0-9-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)", TOKENS.read_text()
    )
    return {
        "light": {name: light for name, light, _ in found},
        "dark": {name: dark for name, _, dark in found},
    }


def linear(colour: str) -> list[float]:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    return [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]


def luminance(colour: str) -> float:
    red, green, blue = linear(colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def lab(rgb: list[float]) -> tuple[float, float, float]:
    def bend(t: float) -> float:
        return float(t ** (1 / 3)) if t > 0.008856 else 7.787 * t + 16 / 116

    red, green, blue = (min(max(part, 0.0), 1.0) for part in rgb)
    x = bend((0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.95047)
    y = bend(0.2126 * red + 0.7152 * green + 0.0722 * blue)
    z = bend((0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.08883)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def difference(one: str, other: str, vision: str) -> float:
    seen = []
    for colour in (one, other):
        rgb = linear(colour)
        seen.append(
            lab(
                [sum(w * part for w, part in zip(row, rgb, strict=True)) for row in MACHADO[vision]]
            )
        )
    return float(sum((a - b) ** 2 for a, b in zip(*seen, strict=True)) ** 0.5)


@pytest.fixture(params=["light", "dark"])
def colours(request: pytest.FixtureRequest) -> dict[str, str]:
    found = themes()[request.param]
    assert len(found) > 30
    return found


Pairs = frozenset[tuple[str, str]]
TEXT: Final[Pairs] = frozenset(
    {
        *product(("text", "text2", "accent"), (*SURFACES, "s2")),
        ("accent", "accent-bg"),
        ("text", "accent-bg"),
        ("text2", "accent-bg"),
        ("on-accent", "accent"),
        *((f"{tone}-fg", ground) for tone in TONES for ground in (f"{tone}-bg", *SURFACES)),
    }
)
MARKS: Final[Pairs] = frozenset(product((*TONES, "ctl"), SURFACES))
#: Fills that are pale on purpose, with the colour of the outline by which they are seen.
OUTLINED: Final = {"blocked": "ctl"}
#: Hairlines between what space and words tell apart already: decoration, but not nothing.
LINES: Final[Pairs] = frozenset(product(("border",), SURFACES))


def low(colours: dict[str, str], pairs: Pairs, least: float) -> dict[tuple[str, str], float]:
    ratios = {(one, other): contrast(colours[one], colours[other]) for one, other in pairs}
    return {pair: round(ratio, 2) for pair, ratio in ratios.items() if ratio < least}


def rules() -> Iterator[tuple[str, dict[str, str]]]:
    """Each rule of our stylesheets: its selector and what it declares."""
    for sheet in sorted(TOKENS.parent.glob("*.css")):
        text = re.sub(r"/\*.*?\*/", "", sheet.read_text(), flags=re.DOTALL)
        for selector, body in re.findall(r"([^{};]+)\{([^{}]*)\}", text):
            declared = (line.partition(":") for line in body.split(";") if ":" in line)
            yield (
                f"{sheet.name} {selector.strip()}",
                {name.strip(): value.strip() for name, _, value in declared},
            )


def colour_of(value: str) -> str | None:
    """The token that a declaration names, if it names one of the colours."""
    found = re.fullmatch(r"var\(--([a-z0-9-]+)\)", value)
    return found[1] if found and found[1] in themes()["light"] else None


def test_text_can_be_read_on_every_surface_and_chip(colours: dict[str, str]) -> None:
    assert low(colours, TEXT, 4.5) == {}


def test_text_can_be_read_on_the_ground_that_its_own_rule_gives_it(colours: dict[str, str]) -> None:
    pairs = set()
    for _selector, declared in rules():
        text = colour_of(declared.get("color", ""))
        ground = colour_of(declared.get("background", declared.get("background-color", "")))
        if text and ground:
            pairs.add((text, ground))
    assert len(pairs) > 12
    assert low(colours, frozenset(pairs), 4.5) == {}


def test_marks_and_borders_of_controls_can_be_seen(colours: dict[str, str]) -> None:
    assert low(colours, MARKS, 3) == {}
    assert low(colours, LINES, 1.2) == {}


def test_a_pale_fill_has_an_outline_that_can_be_seen() -> None:
    filled = {colour_of(declared.get("fill", "")): declared for _, declared in rules()}
    for fill, outline in OUTLINED.items():
        assert colour_of(filled[fill].get("stroke", "")) == outline, fill
        assert {outline} <= {mark for mark, _ground in MARKS}


@pytest.mark.parametrize("vision", MACHADO)
def test_marks_can_be_told_apart_by_everyone(colours: dict[str, str], vision: str) -> None:
    near = {
        pair: round(difference(colours[pair[0]], colours[pair[1]], vision), 1)
        for pair in combinations((*TONES, *OUTLINED), 2)
    }
    assert {pair: how_far for pair, how_far in near.items() if how_far < 8} == {}


def test_no_colour_is_left_unmeasured() -> None:
    measured = {name for pair in TEXT | MARKS | LINES for name in pair} | set(OUTLINED)
    assert set(themes()["light"]) - measured == set(), "a token that no pair measures"


def test_no_colour_stands_outside_the_tokens_and_none_is_misspelt() -> None:
    """A colour written in a rule has one theme only; `var()` of a name that there is not paints nothing."""
    written, asked, declared_names = [], set(), set()
    for selector, declared in rules():
        declared_names |= {name[2:] for name in declared if name.startswith("--")}
        for name, value in declared.items():
            asked |= set(re.findall(r"var\(--([a-z0-9-]+)\)", value))
            own = selector.startswith("tokens.css ") and name.startswith("--")
            if not own and re.search(r"#[0-9a-f]{3,8}\b|\b(?:rgb|hsl|oklch|lab)a?\(", value):
                written.append(f"{selector}: {name}: {value}")
    assert written == []
    assert asked - declared_names == set()
