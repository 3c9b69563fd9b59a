"""C24 — runs and effects of a state that few are in, behind the thousands that went well.

Copies of one real row, written past the triggers; told by the rows that PostgreSQL reads.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import pytest
from django.db import connection
from django.test import Client

from coordinator.models import EffectSlot, Run
from coordinator.selectors.console_runs import list_runs
from coordinator.states import MAY_BE_OUT, EffectState, RunState
from tests import counted, world
from tests.api import callers
from tests.console.scene import any_time
from tests.effects import ledger

pytestmark = pytest.mark.django_db(transaction=True)

MANY: Final = 3_000
FEW: Final = 5
#: What a page of five reads besides: queues, tasks, dispatches, the caller, a look at the catalogue.
SLACK: Final = 100

_COPY: Final = """
INSERT INTO {table} ({names}) SELECT {changed} FROM {table} AS t, generate_series(1, %s) AS n
WHERE t.{key} = %s
"""


def copies(model: Any, key: Any, count: int, **changed: str) -> None:
    """`count` copies of the row with this key; `changed` gives columns as SQL over `n`, which counts them."""
    table, names = model._meta.db_table, [field.column for field in model._meta.concrete_fields]
    sql = _COPY.format(
        table=table,
        names=", ".join(names),
        changed=", ".join(changed.get(name, f"t.{name}") for name in names),
        key=model._meta.pk.column,
    )
    with any_time() as cursor:
        cursor.execute(sql, [count, key])


def analyzed() -> None:
    counted.alone()
    with connection.cursor() as cursor:
        for model in (Run, EffectSlot):
            cursor.execute(f"ANALYZE {model._meta.db_table}")


def rows_read(act: Callable[[], object]) -> int:
    return counted.least_rows_read(act, tables=("run", "effectslot"))


def results(address: str, caller: callers.Caller) -> list[dict[str, Any]]:
    headers = {"Authorization": f"Bearer {caller.token}"}
    found: list[dict[str, Any]] = Client().get(address, headers=headers).json()["results"]
    return found


@pytest.mark.parametrize("state", sorted(RunState))
def test_c24_runs_of_a_state_are_found_behind_all_that_have_committed(state: RunState) -> None:
    world.queue()
    run = world.submit(world.node("a"))
    original = Run.objects.get(run_id=run.run_id)
    ended = {"finished_at": "t.created_at"}
    fresh = {"run_id": "gen_random_uuid()"}
    few = fresh if state is RunState.ACTIVE else fresh | ended
    copies(Run, original.id, FEW, id="1000000 + n", state=f"'{state}'", **few)
    copies(Run, original.id, MANY, id="2000000 + n", state="'COMMITTED'", **fresh, **ended)
    expected = Run.objects.filter(state=state).order_by("-id")[:FEW]
    wanted = [str(run_id) for run_id in expected.values_list("run_id", flat=True)]
    analyzed()
    caller = callers.person("viewer")
    for queue in ("", "&queue=q"):
        address = f"/api/v1/runs?state={state}&limit={FEW}{queue}"
        assert [told["run_id"] for told in results(address, caller)] == wanted
        assert rows_read(partial(results, address, caller)) < SLACK, queue
    page = list_runs(state=state)
    assert [str(row.run_id) for row in page.rows][:FEW] == wanted
    assert rows_read(partial(list_runs, state=state, queue="q")) < SLACK


@pytest.mark.parametrize("asked", [*sorted(MAY_BE_OUT), "VOID", "PREPARED", "out"])
def test_c24_effects_that_are_not_settled_are_found_among_all_that_have_happened(
    asked: str,
) -> None:
    world.queue()
    by = world.worker()
    effect = ledger.prepare(ledger.claimed(by=by), by=by)
    state = EffectState.UNKNOWN if asked == "out" else EffectState(asked)
    with any_time() as cursor:
        cursor.execute(
            "UPDATE coordinator_effectslot SET state = 'COMMITTED', dispatches = 1, receipt = '{}',"
            " settled_at = prepared_at WHERE effect_id = %s",
            [effect.effect_id],
        )
    ids = {"effect_id": "'ef_' || md5(n::text)", "slot": "'out' || n"}
    copies(EffectSlot, effect.effect_id, MANY, **ids)
    few = {"effect_id": "'ef_' || md5('few' || n)", "slot": "'few' || n"}
    copies(EffectSlot, effect.effect_id, FEW, state=f"'{state}'", **few)
    expected = EffectSlot.objects.filter(state=state).values_list("effect_id", flat=True)
    analyzed()
    caller = callers.person("viewer")
    narrowed = "may_be_out=true" if asked == "out" else f"state={state}"
    address = f"/api/v1/effects?{narrowed}"
    assert [told["effect_id"] for told in results(address, caller)] == sorted(expected)
    assert rows_read(partial(results, address, caller)) < SLACK
