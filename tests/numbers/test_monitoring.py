"""The alert rules and the dashboard: read by real parsers, and about figures that are really there."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families

from tests import world
from tests.api.callers import person
from tests.numbers import load

DOCS = Path(__file__).parents[2] / "docs"
RULES = yaml.safe_load((DOCS / "monitoring" / "prometheus-rules.yml").read_text())
DASHBOARD = json.loads((DOCS / "monitoring" / "grafana-dashboard.json").read_text())
ALL_RULES = [rule for group in RULES["groups"] for rule in group["rules"]]
ALERTS = [rule for rule in ALL_RULES if "alert" in rule]
#: What Grafana puts in place of its variables before Prometheus sees an expression.
_VARIABLES = {"$__rate_interval": "5m", "$__range": "6h", "$queue": ".*"}
#: Grafana's names of units that we use; it shows any other as a plain number.
UNITS = {"short", "percentunit", "s", "ops", "currencyUSD", "bool"}


def expressions() -> Iterator[tuple[str, str]]:
    """Every expression of the rules and of the dashboard, with where it stands."""
    for rule in ALL_RULES:
        yield rule.get("alert") or rule["record"], rule["expr"]
    for panel in panels():
        for target in panel["targets"]:
            yield panel["title"], target["expr"]
    for annotation in DASHBOARD["annotations"]["list"]:
        yield annotation["name"], annotation["expr"]


def panels() -> list[dict[str, Any]]:
    return [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def parsed(expression: str) -> Any:
    for name, text in _VARIABLES.items():
        expression = expression.replace(name, text)
    return promql_parser.parse(expression)


def selectors(node: Any) -> Iterator[Any]:
    """The selectors of an expression, with their names and labels."""
    match type(node).__name__:
        case "VectorSelector":
            yield node
        case "MatrixSelector":
            yield node.vector_selector
        case "Call":
            for each in node.args:
                yield from selectors(each)
        case "BinaryExpr":
            yield from selectors(node.lhs)
            yield from selectors(node.rhs)
        case "AggregateExpr" | "ParenExpr" | "UnaryExpr" | "SubqueryExpr":
            yield from selectors(node.expr)
        case "NumberLiteral" | "StringLiteral":
            return
        case other:
            raise AssertionError(f"an expression of a kind that this test does not read: {other}")


@pytest.mark.parametrize(("where", "expression"), list(expressions()))
def test_prometheus_can_read_it(where: str, expression: str) -> None:
    assert parsed(expression) is not None, where


@pytest.mark.django_db(transaction=True)
def test_every_figure_and_label_that_is_named_is_in_a_real_scrape() -> None:
    world.queue()
    load.everything()
    token = person("viewer").token
    text = Client().get("/metrics", headers={"Authorization": f"Bearer {token}"}).content.decode()
    families = list(text_string_to_metric_families(text))
    there: dict[str, set[str]] = {}
    for family in families:
        for sample in family.samples:
            there.setdefault(sample.name, set()).update(sample.labels)
    recorded = {rule["record"] for rule in ALL_RULES if "record" in rule}
    # What stands only for something that waits has no sample in a quiet world, but is told as a family.
    quiet = {family.name for family in families if not family.samples}
    missing = []
    for where, expression in expressions():
        for selector in selectors(parsed(expression)):
            if selector.name in recorded | quiet:
                continue
            labels = {matcher.name for matcher in selector.matchers.matchers}
            if not labels <= there.get(selector.name, set()) or selector.name not in there:
                missing.append((where, selector.name, labels))
    assert not missing


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), flags=re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings
    }


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_an_alert_says_how_bad_it_is_and_names_a_runbook_that_is_there(
    rule: dict[str, Any],
) -> None:
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert rule["annotations"]["summary"].endswith(".")
    page, _, anchor = rule["annotations"]["runbook"].partition("#")
    assert anchor in anchors(DOCS.parent / page), sorted(anchors(DOCS.parent / page))


def test_what_must_alert_does() -> None:
    named = " ".join(rule["expr"] for rule in ALERTS)
    for figure in (
        "tenure_coverage_ratio", "tenure_drill_overdue", "tenure_drill_passed", "tenure_unknown_effect_oldest_seconds",
        "tenure_approval_next_expiry_seconds", "tenure_fenced_commits_total", "tenure:reclaim_latency_seconds",
        "tenure_roll_up_lag_seconds", "tenure_queue_intake_open", "tenure_unknown_effects_asked_in_vain",
    ):  # fmt: skip
        assert figure in named, figure


def test_the_groups_are_as_prometheus_reads_them() -> None:
    names = [group["name"] for group in RULES["groups"]]
    assert len(set(names)) == len(names)
    for rule in ALL_RULES:
        assert ("alert" in rule) != ("record" in rule)
        assert set(rule) <= {"alert", "record", "expr", "for", "labels", "annotations"}
        if "for" in rule:
            assert re.fullmatch(r"\d+[smh]", rule["for"])
    assert all(
        re.fullmatch(r"[a-z_]+:[a-z_]+:[a-z0-9_]+", r["record"]) for r in ALL_RULES if "record" in r
    )


def test_every_panel_has_a_query_a_unit_and_a_place_of_its_own() -> None:
    assert DASHBOARD["schemaVersion"] >= 39
    assert {each["name"] for each in DASHBOARD["templating"]["list"]} == {"datasource", "queue"}
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells
    for panel in panels():
        assert panel["title"]
        assert panel["targets"]
        assert panel["fieldConfig"]["defaults"]["unit"] in UNITS
        assert all(target["legendFormat"] for target in panel["targets"])
