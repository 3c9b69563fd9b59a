"""The checker itself: it must know a possible history from an impossible one."""

import pytest

from tests.chaos.order import CANCELLED, Operation, Verb, explain

INFINITE = float("inf")


def op(verb: Verb, began: float, ended: float, generation: int = 1, result: str = "") -> Operation:
    return Operation(verb, began, ended, generation, result)


GRANT = op(Verb.GRANT, 0, 1)

POSSIBLE = {
    "granted, held, committed, read": [
        GRANT,
        op(Verb.HOLD, 2, 3),
        op(Verb.COMMIT, 4, 5, result="r"),
        op(Verb.READ, 6, 7, result="r"),
    ],
    "a commit that raced with the next grant came first or was fenced": [
        GRANT,
        op(Verb.GRANT, 2, 5, 2),
        op(Verb.FENCED, 3, 4),
        op(Verb.COMMIT, 6, 7, 2, "r"),
    ],
    "a repeat gets the same answer": [
        GRANT,
        op(Verb.COMMIT, 2, 3, result="r"),
        op(Verb.COMMIT, 4, 5, result="r"),
    ],
    "an unheard commit has happened": [
        GRANT,
        op(Verb.MAYBE_COMMIT, 2, INFINITE),
        op(Verb.READ, 9, 10, result="r"),
        op(Verb.TOO_LATE, 11, 12),
    ],
    "an unheard commit has not happened": [
        GRANT,
        op(Verb.MAYBE_COMMIT, 2, INFINITE),
        op(Verb.CANCEL, 9, 10),
        op(Verb.READ, 11, 12, result=CANCELLED),
    ],
    "a renewal that overlaps with a cancel": [
        GRANT,
        op(Verb.CANCEL, 2, 5),
        op(Verb.HOLD, 3, 6),
        op(Verb.TOLD_CANCELLED, 7, 8),
    ],
    "a hold that is lost without a grant": [
        GRANT,
        op(Verb.FENCED, 2, 3),
        op(Verb.READ, 4, 5, result="OPEN"),
    ],
}
IMPOSSIBLE = {
    "two grants of one generation": [GRANT, op(Verb.GRANT, 2, 3)],
    "a generation that nobody asked for": [GRANT, op(Verb.GRANT, 2, 3, 3)],
    "an older grant after a newer one": [op(Verb.GRANT, 0, 1, 2), op(Verb.GRANT, 2, 3, 1)],
    "a renewal after the next grant": [GRANT, op(Verb.GRANT, 2, 3, 2), op(Verb.HOLD, 4, 5)],
    "a renewal after a refusal": [GRANT, op(Verb.FENCED, 2, 3), op(Verb.HOLD, 4, 5)],
    "a renewal after a cancel": [GRANT, op(Verb.CANCEL, 2, 3), op(Verb.HOLD, 4, 5)],
    "a commit of a superseded owner": [
        GRANT,
        op(Verb.GRANT, 2, 3, 2),
        op(Verb.COMMIT, 4, 5, result="r"),
    ],
    "two results": [
        GRANT,
        op(Verb.COMMIT, 2, 3, result="r"),
        op(Verb.COMMIT, 4, 5, result="s"),
    ],
    "committed and cancelled": [GRANT, op(Verb.COMMIT, 2, 3, result="r"), op(Verb.CANCEL, 2, 4)],
    "a read that forgets a commit": [
        GRANT,
        op(Verb.COMMIT, 2, 3, result="r"),
        op(Verb.READ, 4, 5, result="CLAIMED"),
    ],
    "a read of another result": [
        GRANT,
        op(Verb.COMMIT, 2, 3, result="r"),
        op(Verb.READ, 4, 5, result="s"),
    ],
    "a grant after a commit": [
        GRANT,
        op(Verb.COMMIT, 2, 3, result="r"),
        op(Verb.GRANT, 4, 5, 2),
    ],
    "told too late, and nobody committed": [GRANT, op(Verb.TOO_LATE, 2, 3)],
}


@pytest.mark.parametrize("story", POSSIBLE)
def test_a_possible_history_is_explained(story: str) -> None:
    assert explain(POSSIBLE[story], unheard_claims=[])


@pytest.mark.parametrize("story", IMPOSSIBLE)
def test_an_impossible_history_is_not(story: str) -> None:
    assert not explain(IMPOSSIBLE[story], unheard_claims=[])


def test_an_unheard_claim_explains_a_generation_that_nobody_saw() -> None:
    story = [GRANT, op(Verb.GRANT, 4, 5, 3)]
    assert explain(story, unheard_claims=[2.0])
    assert not explain(story, unheard_claims=[6.0])


def test_a_cancel_may_have_ended_a_grant_that_nobody_saw() -> None:
    story = [op(Verb.CANCEL, 2, 3), op(Verb.READ, 4, 5, 1, CANCELLED)]
    assert explain(story, unheard_claims=[1.0])
    assert not explain(story, unheard_claims=[])
