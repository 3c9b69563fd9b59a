"""The shadow judge without a database: what it says of a legacy scheduler's stories (contract 13)."""

import random

import pytest

from coordinator.shadow.rounds import play_rounds
from coordinator.shadow.words import RoundVerdict, Winner

from .stories import POLICY, found, rounds_of, story, verdicts


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(["A claims 0", "A commits 30 r"], id="claimed and committed"),
        pytest.param(["A claims 0", "A renews 50", "A commits 100 r"], id="renewed in time"),
        pytest.param(["A claims 0", "A commits 200 r"], id="a lapsed lease that nobody took over"),
        pytest.param(["A claims 0", "A renews 200", "A commits 220 r"], id="renewed after expiry"),
        pytest.param(["A claims 0", "B claims 61", "B commits 90 r"], id="taken over when lapsed"),
        pytest.param(
            ["A claims 0", "A releases 5", "B claims 6", "B commits 9 r"], id="given back"
        ),
        pytest.param(["A claims 0", "A releases 5", "B claims 5", "B commits 9"], id="at an instant"),
        pytest.param(["A claims 0", "A commits 0 r"], id="claimed and committed at an instant"),
        pytest.param(["A claims 0", "A fails 5", "B claims 9", "B commits 20 r"], id="tried again"),
        pytest.param(["A claims 0", "A fails 5"], id="failed for good"),
        pytest.param(["A claims 0", "A commits 5 r", "A commits 6 r"], id="a repeated commit"),
        pytest.param(["A claims 0", "X cancels 5"], id="cancelled"),
        pytest.param(["A claims 0", "X cancels 5", "A fails 9"], id="cancelled, and told so"),
        pytest.param(["X cancels 0"], id="cancelled before anybody had it"),
        pytest.param(["A claims 0", "A commits 5 r", "X cancels 6"], id="cancelled too late"),
        pytest.param(
            ["A claims 0 i", "A commits 5 r i"], id="with its input told"),
        pytest.param(
            ["A claims 0 i1", "B claims 5 i2", "B commits 9 r i2"], id="revised, and done anew"),
        pytest.param(
            ["A claims 0", "B claims 61", "A renews 70", "B commits 90 r"], id="a zombie's heartbeat"),
    ],
)  # fmt: skip
def test_both_agree(lines: list[str]) -> None:
    assert verdicts(*lines) == ["AGREE"]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["A claims 0", "B claims 30", "A commits 40 r"], ["DOUBLE_CLAIM"]),
        (["A claims 0", "A renews 50", "B claims 70", "A commits 80"], ["DOUBLE_CLAIM"]),
        (["A claims 0", "B claims 30", "A commits 40 r", "B commits 50 r"], ["DOUBLE_CLAIM"]),
        (
            ["A claims 0", "B claims 30", "A commits 40 r1", "B commits 50 r2"],
            ["DOUBLE_CLAIM", "WINNER_DIFFERS"],
        ),
        (["A claims 0", "A commits 9 r", "B claims 30"], ["DOUBLE_CLAIM"]),
        (["A claims 0", "A claims 30", "A commits 40 r"], ["DOUBLE_CLAIM"]),
        (["A claims 0", "B claims 30", "B commits 50 r"], ["DOUBLE_CLAIM", "LOST"]),
        (["A claims 0", "B claims 61", "A commits 70 r", "B commits 80 r"], ["LATE_COMMIT"]),
        (["A claims 0", "B claims 61", "B commits 70 r", "A commits 80 r"], ["LATE_COMMIT"]),
        (
            ["A claims 0", "B claims 61", "B commits 70 r1", "A commits 80 r2"],
            ["LATE_COMMIT", "WINNER_DIFFERS"],
        ),
        (["A claims 0", "A releases 5", "A commits 9 r"], ["LATE_COMMIT", "LOST"]),
        (["A claims 0", "A commits 5 r1", "A commits 9 r2"], ["WINNER_DIFFERS", "WINNER_DIFFERS"]),
        (["A claims 0", "Z commits 5 r1", "A commits 9 r1"], ["WINNER_DIFFERS"]),
        (["A claims 0", "X cancels 5", "A commits 9 r"], ["CANCEL_IGNORED"]),
        (["A claims 0", "X cancels 5", "B claims 9"], ["CANCEL_IGNORED"]),
        (["A claims 0 i1", "B claims 5 i2", "A commits 9 r i1", "B commits 12 r i2"], ["STALE_INPUT"]),
        (["A claims 0 i1", "A commits 9 r i0"], ["STALE_INPUT", "LOST"]),
        (["A claims 0"], ["LOST"]),
        (["A commits 0 r"], ["LOST"]),
        (["A claims 0", "B claims 61"], ["LOST"]),
    ],
)  # fmt: skip
def test_a_mismatch_is_named(lines: list[str], expected: list[str]) -> None:
    assert found(*lines) == expected
    assert verdicts(*lines) == [expected[0]]


def test_the_exemplar_says_which_event_and_what_claim_v1_answers() -> None:
    (one,) = rounds_of("A claims 0", "B claims 61", "B commits 70 r", "A commits 80 r")
    (mismatch,) = one.play.mismatches
    assert (mismatch.event_id, mismatch.beside) == ("e3", "e1")
    assert mismatch.legacy == "took the result of `A`"
    assert mismatch.claim_v1 == "FENCED: STALE_GENERATION"
    (double,) = rounds_of("A claims 0", "B claims 9", "A commits 10")[0].play.mismatches
    assert (double.event_id, double.beside) == ("e1", "e0")
    assert double.claim_v1.startswith("NOT_CLAIMABLE: `A` holds it until ")


def test_both_sides_say_how_they_ended() -> None:
    (one,) = rounds_of("A claims 0", "B claims 30", "A commits 40 r1", "B commits 50 r2")
    assert (one.play.legacy.winner, one.play.legacy.owner) == (Winner.LATER, "B")
    assert (one.play.claimed.winner, one.play.claimed.owner) == (Winner.FIRST, "A")
    (lost,) = rounds_of("A commits 0 r")
    assert (lost.play.legacy.winner, lost.play.claimed.winner) == (Winner.STRANGER, Winner.NOBODY)


@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_arrival_changes_nothing(seed: int) -> None:
    events = story("A claims 0", "B claims 61", "B commits 70 r", "A commits 80 r", "A claims 900")
    shuffled = random.Random(seed).sample(events, len(events))
    assert list(play_rounds(shuffled, POLICY)) == list(play_rounds(events, POLICY))


def test_a_claim_after_the_window_opens_a_fresh_round() -> None:
    assert (
        verdicts("A claims 0", "A commits 9 r", "B claims 310", "B commits 320 r") == ["AGREE"] * 2
    )
    assert verdicts("A claims 0", "A commits 9 r", "B claims 309", "B commits 320 r") == [
        "DOUBLE_CLAIM"
    ]


def test_a_straggler_after_the_window_is_judged_by_what_it_was_granted() -> None:
    lines = ("A claims 0", "B claims 61", "B commits 70 r1", "A commits 4000 r2")
    assert verdicts(*lines) == ["AGREE", "LATE_COMMIT"]
    last = rounds_of(*lines)[1]
    assert last.is_straggler
    assert last.play.mismatches[0].beside == "e1"


def test_a_straggler_finds_the_settled_rounds_before() -> None:
    before = story("A claims 0", "B claims 61", "B commits 70 r1")
    (late,) = story("A commits 4000 r2")
    (one,) = play_rounds([late._replace(event_id="late")], POLICY, history=before)
    assert one.play.verdict == RoundVerdict.LATE_COMMIT
    (heartbeat,) = play_rounds(story("A renews 4000"), POLICY, history=before)
    assert (heartbeat.play.verdict, heartbeat.play.is_counted) == (RoundVerdict.AGREE, False)


def test_a_round_stays_open_while_its_lease_runs_and_longer_where_it_was_given_back() -> None:
    def open_for(*lines: str) -> float:
        (one,) = rounds_of(*lines)
        return (one.closes_at - one.events[0].at).total_seconds()

    assert open_for("A claims 0") == 60 + 300
    assert open_for("A claims 0", "A renews 50") == 110 + 300
    assert open_for("A claims 0", "A commits 50") == 50 + 300
    assert open_for("A claims 0", "A releases 50") == 50 + 86_400
