"""The numbers: what was measured, never a zero for what was not counted, and red below a full coverage."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from console.charts import HEIGHT, draw_chart, draw_spark
from console.figures import NAMES, in_unit
from coordinator.models import RollUp
from coordinator.selectors.figures import DEFINITIONS, Figure, Slo, State, Unit
from coordinator.selectors.markers import Marker
from coordinator.selectors.numbers import Point, read_numbers
from coordinator.services import break_glass
from tests import world
from tests.console.scene import Scene

NOON = datetime(2026, 5, 31, 12, tzinfo=UTC)


def course(*values: float | None) -> list[Point]:
    return [Point(NOON + timedelta(minutes=n), value, 1) for n, value in enumerate(values)]


def test_a_course_has_gaps_where_nothing_was_measured() -> None:
    chart = draw_spark(course(1, 2, None, 3, None, 2, 1))
    assert len(chart.paths) == 2
    assert len(chart.dots) == 1
    assert draw_spark(course(None, None)).paths == ()


def test_a_course_stays_within_its_drawing() -> None:
    chart = draw_chart(course(0, 97, 3, 512), Slo(goal=400, limit=900), [])
    assert [value for _, value in chart.levels] == [0, 200, 400, 600, 800]
    assert all(0 <= y <= HEIGHT for y, _ in chart.levels)
    assert chart.goal_y is not None
    assert draw_chart(course(0.02, 0.01), Slo(goal=300, limit=900), []).goal_y is None


@pytest.mark.parametrize(("highest", "minutes"), [(50, 0.25), (1_710, 10), (5_000, 30)])
def test_the_lines_of_a_course_of_time_stand_at_round_minutes(
    highest: float, minutes: float
) -> None:
    chart = draw_chart(
        course(1, highest), Slo(goal=300, limit=900, at_most=False), [], of_time=True
    )
    assert [value for _, value in chart.levels] == [60 * minutes * part for part in range(5)]


def test_what_was_done_meanwhile_stands_at_its_time() -> None:
    marker = Marker(NOON + timedelta(minutes=2), "EPOCH_BUMPED", "review", "operator:ada")
    outside = Marker(NOON - timedelta(minutes=2), "EPOCH_BUMPED", "review", "operator:ada")
    chart = draw_chart(course(1, 1, 1, 1, 1), Slo(1, 2), [marker, outside])
    ((x, told),) = chart.markers
    assert told is marker
    assert x == (chart.times[2][0] if len(chart.times) > 2 else x)
    assert draw_chart([], Slo(1, 2), [marker]).markers == ()


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (None, Unit.COUNT, "—"),
        (0.0, Unit.COUNT, "0"),
        (1.07, Unit.COUNT, "1.07"),
        (12_345.0, Unit.COUNT, "12\u202f345"),
        (0.05, Unit.RATIO, "5 %"),
        (0.0625, Unit.USD, "$0.06"),
        (2.4, Unit.SECONDS, "2.4 s"),
    ],
)
def test_a_value_is_told_in_its_unit(value: float | None, unit: Unit, text: str) -> None:
    assert in_unit(value, unit) == text


def test_a_coverage_just_below_one_is_never_rounded_up() -> None:
    assert in_unit(0.999999, Unit.RATIO, whole=True) == "99.99 %"
    assert in_unit(1.0, Unit.RATIO, whole=True) == "100 %"


def test_every_figure_has_its_words() -> None:
    assert set(NAMES) == set(Figure) == set(DEFINITIONS)


@pytest.mark.django_db(transaction=True)
class TestPages:
    def test_the_pages_say_what_the_selectors_say(self, signed_in: Client, scene: Scene) -> None:
        numbers = {card.figure: card for card in read_numbers().cards}
        page = signed_in.get("/numbers").content.decode()
        for figure, name in NAMES.items():
            assert str(name) in page
            detail = signed_in.get(f"/numbers/{figure}").content.decode()
            assert DEFINITIONS[figure].told.replace("'", "&#x27;") in detail.replace("'", "&#x27;")
        assert numbers[Figure.FENCED_COMMITS].value == 3
        assert '<p class="value">3</p>' in page
        assert "EPOCH_BUMPED" in signed_in.get("/numbers/fenced_commits").content.decode()

    def test_too_few_to_tell_by_is_said_with_their_number_and_in_no_colour(
        self, signed_in: Client, scene: Scene
    ) -> None:
        few = [card for card in read_numbers().cards if card.state is State.FEW]
        assert few
        for address in ("/numbers", "/"):
            page = signed_in.get(address).content.decode()
            assert page.count("too few to tell (") == len(few), address
        detail = signed_in.get(f"/numbers/{few[0].figure}").content.decode()
        assert f"too few to tell ({few[0].measured})" in detail
        assert 'class="verdict t-expired"' in detail

    def test_what_is_not_counted_yet_is_stale_and_no_zero(
        self, signed_in: Client, scene: Scene
    ) -> None:
        RollUp.objects.update(rolled_until=NOON - timedelta(days=400))
        for address in ("/numbers", "/"):
            page = signed_in.get(address).content.decode()
            assert "stale-figure" in page, address
            assert "stale</span>" in page, address
        RollUp.objects.all().delete()
        page = signed_in.get("/numbers").content.decode()
        assert "Nothing has been counted yet" in page
        assert page.count('<p class="value">—</p>') >= 6

    def test_a_write_past_the_guard_turns_coverage_red(
        self, signed_in: Client, scene: Scene
    ) -> None:
        opened: Any = break_glass.open_break_glass(
            reason="Repairing a row by hand.", minutes=5, actor=world.operator()
        )
        from django.db import transaction

        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT set_config('tenure.break_glass', %s, true)", [str(opened.pk)])
            cursor.execute(
                "UPDATE coordinator_task SET priority = 3 WHERE task_id = %s", [scene.held]
            )
        page = signed_in.get("/numbers/coverage").content.decode()
        assert "t-failed-text" in page
        assert "break_glass" in page
        assert "needs a look" in signed_in.get("/").content.decode()

    def test_a_range_and_a_queue_stand_in_the_address(
        self, signed_in: Client, scene: Scene
    ) -> None:
        page = signed_in.get("/numbers/fenced_commits?hours=24&queue=nightly").content.decode()
        assert '<option value="nightly" selected>' in page
        assert "24 hours</a>" in page
        for nonsense in ("hours=9999999999", "hours=x", "queue=nowhere", "hours=-1"):
            assert signed_in.get(f"/numbers?{nonsense}").status_code == 200
        assert signed_in.get("/numbers/nothing").status_code == 404

    @pytest.mark.parametrize("address", ["/numbers", "/numbers/ready_to_commit"])
    def test_it_costs_few_queries(self, signed_in: Client, scene: Scene, address: str) -> None:
        signed_in.get(address)
        with CaptureQueriesContext(connection) as captured:
            signed_in.get(address)
        assert len(captured) <= 14, [query["sql"][:100] for query in captured.captured_queries]
