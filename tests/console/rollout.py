"""A queue that moves over from a legacy scheduler: a feed with agreement and with mismatches, settled."""

from coordinator.models import ShadowRound
from coordinator.states import RolloutStage
from tests import world
from tests.shadow.feeds import feeder, settle, tell

QUEUE = "mailroom"


def shadowed(*, agreeing: int = 6) -> None:
    """A queue in SHADOW with rounds of several classes; its gate asks for five."""
    world.queue(name=QUEUE, rollout_stage=RolloutStage.SHADOW, promotion_rounds=5)
    by = feeder(QUEUE)
    for number in range(agreeing):
        tell("A claims 0", "A commits 9 r", by=by, key=f"letter {number}", queue=QUEUE)
    for number in range(2):
        tell(
            "A claims 0", "B claims 9", "A commits 12 r", by=by, key=f"twice {number}", queue=QUEUE
        )
    tell("A claims 0", "A commits 9 r", by=by, key="letter 0", queue=QUEUE)  # told again
    settle()


def a_mismatch() -> ShadowRound:
    found = ShadowRound.objects.exclude(verdict="AGREE").exclude(verdict=None).first()
    assert found is not None
    return found
