"""The colours of tokens.css: text that can be read, marks that can be told apart, in both themes.

Thresholds: WCAG 2.2 (4.5 for text, 3 for graphics); colour-vision deficiency by the matrices
of Machado, Oliveira and Fernandes (2009) at severity 1, differences in CIE 1976 (ΔE*ab).
"""

import re
from itertools import combinations
from pathlib import Path

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


def test_text_can_be_read_on_every_surface(colours: dict[str, str]) -> None:
    pairs = [
        (text, surface) for text in ("text", "text2", "accent") for surface in (*SURFACES, "s2")
    ]
    pairs += [
        ("accent", "accent-bg"),
        ("text", "accent-bg"),
        ("text2", "accent-bg"),
        ("on-accent", "accent"),
    ]
    low = {pair: contrast(colours[pair[0]], colours[pair[1]]) for pair in pairs}
    assert {pair: ratio for pair, ratio in low.items() if ratio < 4.5} == {}


def test_the_words_of_chips_can_be_read(colours: dict[str, str]) -> None:
    grounds = {tone: (f"{tone}-bg", *SURFACES) for tone in TONES}
    low = {
        (tone, ground): contrast(colours[f"{tone}-fg"], colours[ground])
        for tone in TONES
        for ground in grounds[tone]
    }
    assert {pair: ratio for pair, ratio in low.items() if ratio < 4.5} == {}


def test_marks_and_borders_of_controls_can_be_seen(colours: dict[str, str]) -> None:
    low = {
        (mark, ground): contrast(colours[mark], colours[ground])
        for mark in (*TONES, "ctl")
        for ground in SURFACES
    }
    assert {pair: ratio for pair, ratio in low.items() if ratio < 3} == {}


@pytest.mark.parametrize("vision", MACHADO)
def test_marks_can_be_told_apart_by_everyone(colours: dict[str, str], vision: str) -> None:
    near = {
        pair: round(difference(colours[pair[0]], colours[pair[1]], vision), 1)
        for pair in combinations(TONES, 2)
    }
    assert {pair: how_far for pair, how_far in near.items() if how_far < 8} == {}
