"""A run of the bench as text and picture: what was not reached or not measured says so."""

import json
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree as ET

from bench.beside import best
from bench.chart import draw
from bench.goals import GOALS, is_reached, ratios
from bench.report import show

DOCS: Final = Path(__file__).parents[2] / "docs"


def figures(**changed: Any) -> dict[str, Any]:
    return {
        "fdatasync_per_s": 1_500,
        "rows": [
            {"what": "ceiling single", "clients": 4, "cycles_per_s": 1_000},
            {"what": "ceiling batch", "clients": 4, "cycles_per_s": 20_000},
            {"what": "tenure batch", "clients": 1, "cycles_per_s": 9_000}
            | {"claim_p50_ms": 1.0, "claim_p95_ms": 2.0, "commit_p50_ms": 3.0},
            {"what": "tenure batch", "clients": 4, "cycles_per_s": 12_000},
            {"what": "tenure single", "clients": 4, "cycles_per_s": 300},
        ],
        "peers": [
            {
                "peer": "pgqueuer",
                "procs": 1,
                "settings": {"batch": 10},
                "jobs_per_s": 4_000,
                "complete": True,
            },
            {
                "peer": "pgqueuer",
                "procs": 2,
                "settings": {"batch": 99},
                "jobs_per_s": 90_000,
                "complete": False,
            },
            {"peer": "pgqueuer", "late_completion": "accepted"},
            {"peer": "celery (redis)", "error": "redis is not installed"},
        ],
        "submit_nodes_per_s": 6_000,
        "start": {"p50_ms": 8.0, "p95_ms": 50.0},
        "fans": [
            {"width": 100, "fan_in_us": 100.0, "no_edges_us": 90.0, "fan_out_us": 50.0},
            {"width": 1_000, "fan_in_us": 120.0, "no_edges_us": 90.0, "fan_out_us": 100.0},
        ],
        "renewals": {"core_share": 0.1, "hot_share": 0.99},
        "reclaims": {"p95_ms": 200.0},
        "claim_latency": {"ratio": 1.1},
        "bumps": {"p99_ms": 20.0, "old_epoch_writes_after": 0},
        "pages": [{"page": "/tasks", "p50_ms": 40.0, "p95_ms": 90.0}],
        "web_memory_mib": 120,
        **changed,
    }


def reached(made: dict[str, Any]) -> dict[str, bool | None]:
    return {row["goal"]: is_reached(row) for row in ratios(made)}


def test_a_goal_is_reached_missed_or_not_measured() -> None:
    told = reached(figures())
    assert told["batched, of the raw batch ceiling"] is True  # 0.6
    assert told["one task a call, of the raw single ceiling"] is False  # 0.3
    assert told["batched, of PgQueuer's best"] is True
    assert told["batched, of Oban's best"] is None
    assert told["READY to start at 50/s, p95 ms"] is False
    assert told["fan-out, time per edge at the widest, of the narrowest"] is False
    assert len(told) == len(GOALS)


def test_one_write_of_an_old_epoch_is_one_too_many() -> None:
    told = reached(figures(bumps={"p99_ms": 20.0, "old_epoch_writes_after": 1}))
    assert told["writes of an old epoch after its bump"] is False


def test_a_setting_that_lost_tasks_is_nobody_s_best() -> None:
    assert best(figures()["peers"]) == {"pgqueuer": 4_000}


def test_the_text_names_what_was_not_reached_and_what_was_not_measured() -> None:
    made = figures()
    text = show(made | {"ratios": ratios(made)})
    assert "| one task a call, of the raw single ceiling | ≥ 0.35 | 0.3 — not reached |" in text
    assert "| batched, of Oban's best | ≥ 2 | not measured |" in text
    assert "| celery (redis) |  | not measured |  | redis is not installed |" in text
    assert "| pgqueuer | 1, batch 10 | 4,000 |  | accepted |" in text


def test_the_chart_is_a_picture_with_a_bar_for_each_and_their_names_escaped() -> None:
    peers = [{"peer": "<b>&", "jobs_per_s": 5, "complete": True, "settings": {}, "procs": 1}]
    svg = ET.fromstring(draw(figures(peers=peers)))
    names = [element.text for element in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert "<b>&" in names
    bars = [each for each in svg.iter("{http://www.w3.org/2000/svg}rect") if each.get("rx")]
    assert len(bars) == 5


def test_the_chart_of_the_docs_is_drawn_from_the_figures_beside_it() -> None:
    measured = DOCS / "measured"
    told = json.loads((measured / "bench.json").read_text())
    assert (measured / "bench.svg").read_text() == draw(told)
    assert "measured/bench.svg" in (DOCS / "performance.md").read_text()
    assert show(told)
