"""What a soak says of its figures: flat, growing or falling, by a rule that noise alone does not meet."""

import random
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from bench import growth_chart
from bench.growth import trend, trends
from bench.soak_report import show

AT = [30.0 * number for number in range(1, 121)]  # an hour
SVG = "{http://www.w3.org/2000/svg}"


def noisy(level: float, an_hour: float, noise: float = 0.05) -> list[float]:
    chance = random.Random(7)
    return [level + an_hour * at / 3600 + chance.gauss(0, noise * level) for at in AT]


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        (noisy(100, 0), "flat"),
        (noisy(100, 5), "flat"),  # within the tolerance
        (noisy(100, 30), "growing"),
        (noisy(100, -30), "falling"),
        (noisy(100, 12, noise=1.0), "flat"),  # a slope that the noise explains
        ([0.0] * len(AT), "flat"),
        ([120.0 + at / 60 for at in AT], "growing"),
    ],
)
def test_a_figure_is_judged_by_its_line_and_its_noise(values: list[float], verdict: str) -> None:
    assert trend("it", AT, values).verdict == verdict


def test_what_fills_caches_in_the_beginning_is_no_growth() -> None:
    values = [min(100.0, at / 6) for at in AT]  # full after ten minutes
    assert trend("it", AT, values).verdict == "flat"


def test_a_slope_is_told_for_an_hour_and_as_a_share_of_the_mean() -> None:
    told = trend("it", AT, [100 + 40 * at / 3600 for at in AT])
    assert told.slope_per_hour == pytest.approx(40)
    assert told.share == pytest.approx(40 / told.mean)


def test_few_values_say_nothing() -> None:
    assert trend("it", AT[:5], [1.0, 2.0, 3.0, 4.0, 5.0]).verdict == "too few values"
    assert trend("it", [], []).verdict == "too few values"


def soaked(samples: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "minutes": 60.0,
        "fdatasync_per_s": 500,
        "batch": 1,
        "maximum_per_s": 400.0,
        "share": 0.7,
        "paced_per_s": 280.0,
        "trends": [
            {name: getattr(each, name) for name in each.__slots__} for each in trends(samples)
        ],
        "samples": samples,
    }


def samples() -> list[dict[str, Any]]:
    values = noisy(100, 30)
    return [
        {
            "at_s": at,
            "figures": {"tasks/s": 280.0, "claim p50 ms": value}
            | ({"page / p95 ms": 50.0} if at > 60 else {}),
            "outcomes": {"COMMITTED": 100, "fail: RETRY_SCHEDULED": 1},
            "page_faults": ["12:00:00 gone"] if at == AT[3] else [],
        }
        for at, value in zip(AT, values, strict=True)
    ]


def test_the_text_names_each_figure_its_verdict_and_what_failed() -> None:
    text = show(soaked(samples()))
    assert "| claim p50 ms |" in text
    assert text.count("| growing |") == 1
    assert "COMMITTED 12,000" in text
    assert "A page failed: 12:00:00 gone" in text


def test_the_chart_has_a_line_for_each_figure_that_was_read_and_no_colour_of_one_theme_alone() -> (
    None
):
    drawn = growth_chart.draw(soaked(samples()))
    svg = ET.fromstring(drawn)
    lines = [line for line in svg.iter(f"{SVG}polyline") if line.get("points")]
    assert len(lines) == 3
    assert len((lines[0].get("points") or "").split()) == len(AT)
    assert not any(each.get("fill", "").startswith("#") for each in svg.iter())
    assert "prefers-color-scheme:dark" in drawn
    assert ET.fromstring(growth_chart.draw(soaked([]) | {"minutes": 0.0})).tag == f"{SVG}svg"
