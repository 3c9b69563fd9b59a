"""The two drawings: nothing overlaps, nothing is lost, and words stay within the picture."""

from collections.abc import Sequence
from datetime import timedelta
from itertools import pairwise
from uuid import uuid4

from console.graphs import BOX_HEIGHT, BOX_WIDTH, FOLD_ABOVE, Drawing, draw_dag
from console.time_axis import LEFT, RIGHT
from console.timelines import MAX_LANES, draw_timeline
from coordinator.selectors.console_attempts import History, Mark
from coordinator.selectors.runs import Graph, GraphEdge, GraphNode
from tests.console.stories import START, attempt, history, refused


def node(name: str, kind: str = "step", state: str = "READY") -> GraphNode:
    return GraphNode(name, uuid4(), kind, state, 1, 0, None, None, 0)


def graph(
    names: Sequence[str], edges: Sequence[tuple[str, str]], kinds: dict[str, str] | None = None
) -> Graph:
    return Graph(
        [node(name, (kinds or {}).get(name, name)) for name in names],
        [GraphEdge(parent, child) for parent, child in edges],
    )


def overlaps(drawing: Drawing) -> list[tuple[str, str]]:
    return [
        (a.group.key, b.group.key)
        for index, a in enumerate(drawing.boxes)
        for b in drawing.boxes[index + 1 :]
        if abs(a.x - b.x) < BOX_WIDTH and abs(a.y - b.y) < BOX_HEIGHT
    ]


def test_children_stand_right_of_their_parents() -> None:
    drawing = draw_dag(graph("abcd", [("a", "b"), ("b", "d"), ("a", "c"), ("c", "d"), ("a", "d")]))
    x = {box.group.key: box.x for box in drawing.boxes}
    assert x["a"] < x["b"] == x["c"] < x["d"]
    assert len(drawing.edges) == 5
    assert not overlaps(drawing)


def test_siblings_that_are_alike_are_one_box_that_counts_them() -> None:
    names = [f"n{number}" for number in range(30)]
    edges = [("start", name) for name in names] + [(name, "end") for name in names]
    kinds = dict.fromkeys(names, "analyse")
    folded = draw_dag(graph(["start", *names, "end"], edges, kinds))
    assert folded.folded
    assert sorted(len(box.group.nodes) for box in folded.boxes) == [1, 1, 30]
    assert len(folded.edges) == 2
    unfolded = draw_dag(graph(["start", *names, "end"], edges, kinds), unfold=True)
    assert len(unfolded.boxes) == 32
    assert not overlaps(unfolded)


def test_a_large_run_is_folded_by_layer_and_kind_whatever_is_asked() -> None:
    names = [f"n{layer}.{number}" for layer in range(5) for number in range(100)]
    edges = [
        (f"n{layer}.{number}", f"n{layer + 1}.{(number * 7) % 100}")
        for layer in range(4)
        for number in range(100)
    ]
    drawing = draw_dag(
        graph(names, edges, {name: name.split(".")[0] for name in names}), unfold=True
    )
    assert len(names) > FOLD_ABOVE
    assert len(drawing.boxes) <= 25
    assert sum(len(box.group.nodes) for box in drawing.boxes) == 500


def test_crossings_are_untangled() -> None:
    left, right = [f"l{n}" for n in range(8)], [f"r{n}" for n in range(8)]
    drawing = draw_dag(graph([*left, *right], [(f"l{n}", f"r{7 - n}") for n in range(8)]))
    y = {box.group.key: box.y for box in drawing.boxes}
    order = sorted(range(8), key=lambda n: y[f"l{n}"])
    assert all(y[f"r{7 - a}"] < y[f"r{7 - b}"] for a, b in pairwise(order))


def test_an_empty_run_is_an_empty_drawing() -> None:
    assert draw_dag(Graph()).boxes == ()


# --- timelines --------------------------------------------------------------------------------


def test_a_late_write_stands_on_the_lane_of_its_old_owner() -> None:
    first = attempt(1, start=0, lease=60, end=70, state="FENCED", renewed=(20, 40))
    second = attempt(2, start=70, lease=130, end=100, state="COMMITTED")
    drawn = draw_timeline(
        history(first, second, marks=[refused(1, 120, repeats=1)]),
        now=START + timedelta(seconds=500),
    )
    assert drawn is not None
    old, new = drawn.lanes
    assert [bar.shape for bar in old.bars] == ["lease", "lapsed"]
    assert old.ghost is not None
    assert old.ghost[0] == new.taken_from
    (fenced,) = old.points
    assert (fenced.shape, fenced.word, fenced.times) == ("fenced", "commit FENCED", 2)
    assert fenced.x > new.points[0].x
    assert len(old.renewals) == 2
    assert drawn.now_x is None


def test_a_live_lease_is_drawn_to_its_end() -> None:
    live = attempt(1, start=0, lease=100, end=None, state="STARTED")
    drawn = draw_timeline(history(live), now=START + timedelta(seconds=40))
    assert drawn is not None
    assert [bar.shape for bar in drawn.lanes[0].bars] == ["lease", "ahead"]
    assert drawn.now_x is not None
    assert LEFT < drawn.now_x < RIGHT


def test_a_lapsed_lease_that_nobody_took_is_drawn_as_held_past_its_expiry() -> None:
    lapsed = attempt(1, start=0, lease=10, end=None, state="STARTED")
    drawn = draw_timeline(history(lapsed), now=START + timedelta(seconds=40))
    assert drawn is not None
    assert [bar.shape for bar in drawn.lanes[0].bars] == ["lease", "lapsed"]


def test_forty_lanes_are_drawn_and_the_rest_is_counted() -> None:
    attempts = [
        attempt(n, start=n * 10, lease=n * 10 + 5, end=n * 10 + 6, state="EXPIRED")
        for n in range(1, 61)
    ]
    drawn = draw_timeline(history(*attempts), now=START + timedelta(seconds=700))
    assert drawn is not None
    assert len(drawn.lanes) == MAX_LANES
    assert drawn.left_out == 20
    assert [lane.attempt.claim_generation for lane in drawn.lanes] == list(range(21, 61))


def test_an_attempt_of_no_length_at_all_is_still_there() -> None:
    drawn = draw_timeline(
        history(attempt(1, start=0, lease=0, end=0, state="COMMITTED")), now=START
    )
    assert drawn is not None
    assert drawn.lanes[0].bars[0].width >= 2
    assert [at for _, at in drawn.ticks] == [drawn.lanes[0].attempt.started_at]


def test_a_long_rest_is_drawn_short_with_a_break() -> None:
    first = attempt(1, start=0, lease=30, end=10, state="FAILED")
    second = attempt(2, start=86_400, lease=86_430, end=86_410, state="COMMITTED")
    drawn = draw_timeline(history(first, second), now=START + timedelta(days=3))
    assert drawn is not None
    assert len(drawn.breaks) == 1
    assert drawn.lanes[0].bars[0].width > 80
    assert drawn.spans_days


def bumped(at: float) -> Mark:
    return Mark("EPOCH_BUMPED", None, START + timedelta(seconds=at), None, 0, {"from": 1, "to": 2})


def test_a_bump_after_a_tasks_last_word_is_no_part_of_its_story() -> None:
    ended = attempt(1, start=0, lease=30, end=10, state="COMMITTED")
    drawn = draw_timeline(history(ended, bumps=[bumped(7_200)]), now=START + timedelta(days=1))
    assert drawn is not None
    assert (drawn.epochs, drawn.breaks) == ((), ())
    held = attempt(1, start=0, lease=9_000, end=None, state="STARTED")
    drawn = draw_timeline(history(held, bumps=[bumped(7_200)]), now=START + timedelta(hours=2.1))
    assert drawn is not None
    assert len(drawn.epochs) == 1


def test_words_of_a_break_an_epoch_and_a_late_call_cover_nothing() -> None:
    """A late call right before a long rest, and a bump right after it."""
    story = history(
        attempt(1, start=0, lease=5, end=5, state="FENCED"),
        attempt(2, start=5, lease=10, end=6, state="FAILED"),
        attempt(3, start=1_600, lease=1_700, end=1_601, state="COMMITTED"),
        marks=[refused(1, 8)],
        bumps=[bumped(1_590)],
    )
    drawn = draw_timeline(story, now=START + timedelta(hours=1))
    assert drawn is not None
    ((at, y, _length),) = drawn.breaks
    assert (y == drawn.height - 2) == any(abs(at - x) < 100 for x, _word in drawn.epochs)
    for lane in drawn.lanes:
        for point in lane.points:
            if point.word:
                start, end = point.span(is_left=point.is_left)
                assert end <= at - 4 or at + 4 <= start, point


def test_everything_stays_within_the_picture_and_ticks_apart() -> None:
    story = history(
        attempt(1, start=0, lease=60, end=61, state="FENCED"),
        attempt(2, start=61, lease=300, end=None, state="STARTED", renewed=(90, 120)),
        marks=[refused(1, 100)],
        bumps=[bumped(30)],
    )
    drawn = draw_timeline(story, now=START + timedelta(seconds=130))
    assert drawn is not None
    places = [
        x
        for lane in drawn.lanes
        for x in [
            *(b.x for b in lane.bars),
            *(b.x + b.width for b in lane.bars),
            *(p.x for p in lane.points),
        ]
    ]
    assert all(LEFT <= x <= RIGHT + 2 for x in places)
    assert drawn.epochs[0][1] == "1 → 2"
    assert all(later - earlier >= 90 for (earlier, _), (later, _) in pairwise(drawn.ticks))


def test_a_task_that_nobody_claimed_has_no_timeline() -> None:
    assert draw_timeline(History((), 0, (), (), ()), now=START) is None
