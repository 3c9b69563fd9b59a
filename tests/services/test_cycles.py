"""Cycles are found exactly where there are some, and named in the order of work (contract 6)."""

from graphlib import CycleError, TopologicalSorter

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coordinator.services.cycles import find_cycle

NAMES = "abcdefgh"
GRAPHS = st.dictionaries(st.sampled_from(NAMES), st.sets(st.sampled_from(NAMES)), min_size=1).map(
    lambda drawn: {name: sorted(above & set(drawn)) for name, above in drawn.items()}
)


#: A busy machine draws slowly; that says nothing of the graphs.
QUICK = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@QUICK
@given(GRAPHS)
def test_a_cycle_is_told_exactly_where_the_standard_library_finds_one(
    parents: dict[str, list[str]],
) -> None:
    try:
        list(TopologicalSorter(parents).static_order())
        cyclic = False
    except CycleError:
        cyclic = True
    assert bool(find_cycle(parents)) == cyclic


@QUICK
@given(GRAPHS)
def test_each_node_of_the_cycle_waits_for_the_one_before_it(parents: dict[str, list[str]]) -> None:
    cycle = find_cycle(parents)
    assert len(set(cycle)) == len(cycle)
    for before, after in zip(cycle, cycle[1:] + cycle[:1], strict=True):
        assert before in parents[after]


def test_a_chain_of_ten_thousand_takes_no_recursion() -> None:
    chain = {f"n{i}": [f"n{i - 1}"] if i else [] for i in range(10_000)}
    assert find_cycle(chain) == []
    assert len(find_cycle(chain | {"n0": ["n9999"]})) == 10_000
