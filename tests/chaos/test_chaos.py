"""The short run, and two of the seeded bugs: the long run and the other bugs are `make chaos` (docs/chaos.md)."""

import pytest

from tests.chaos import figures
from tests.chaos.bugs import BUGS
from tests.chaos.story import tell

pytestmark = [pytest.mark.xdist_group("chaos"), pytest.mark.slow]

STORM_SECONDS = 30.0
#: On a busy machine a storm may be too weak to show anything: then the next one is so many times as long.
AS_LONG = (1, 3)
BUG_SECONDS = 15.0
SEED = 2026
#: The long run's 50 and 20, in proportion to its ten minutes.
OUTCOMES, RACES = 2, 1


def test_nothing_is_lost_or_doubled_whatever_breaks() -> None:
    few: list[str] = []
    for times in AS_LONG:
        told = tell(seconds=times * STORM_SECONDS, seed=SEED)
        assert not told.complaints, "\n".join(told.complaints)
        few = figures.too_few(told.counts, outcomes=OUTCOMES, races=RACES)
        if not few:
            break
    assert not few, f"the storm was too weak to show anything: {few}"


@pytest.mark.parametrize("name", ["a parent counts twice", "a repeat of a commit is judged anew"])
def test_a_seeded_bug_is_noticed(name: str) -> None:
    assert name in BUGS
    told = tell(seconds=BUG_SECONDS, seed=SEED, bug=name)
    assert any(told.wrong[check] for check in ("events", "clients", "outside")), told.counts
