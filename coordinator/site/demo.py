"""What the example of `up` needs in the database: its queues and downstreams, and its credential."""

from collections.abc import Mapping
from typing import Any, Final

from coordinator.actors import Actor, Worker, system
from coordinator.services import credentials, downstreams, queues
from coordinator.site.claimed import StateFolder
from coordinator.states import RolloutStage

DEMO_POOL: Final = "default"
DEMO_QUEUE: Final = "reviews"
#: Beside it, work to try the console's jobs on; and a queue that a legacy scheduler still decides about.
PRACTICE_QUEUE: Final = "practice"
MOVING_QUEUE: Final = "practice-moving"
DEMO_QUEUES: Final = (DEMO_QUEUE, PRACTICE_QUEUE, MOVING_QUEUE)
DEMO_SCOPES: Final = ("work", "submit", "shadow", "gate")
#: A night of the example's legacy scheduler has more rounds, and is settled within seconds of its end.
MOVING_POLICY: Final = {"promotion_rounds": 20, "shadow_settle_seconds": 5}
#: Where the example's report goes, with what each can guarantee.
DEMO_DOWNSTREAMS: Final = (
    ("review-git", "git", "CONDITIONAL_WRITE"),
    ("review-store", "etag", "CONDITIONAL_WRITE"),
    ("review-mail", "smtp", "NONE"),
)
#: Where the practice work goes. All of it is on this machine: what was sent has arrived within seconds.
PRACTICE_DOWNSTREAMS: Final[Mapping[str, Mapping[str, Any]]] = {
    "practice-texts": {"guarantee": "GATED", "call_timeout_seconds": 10, "settle_seconds": 5},
    "practice-orders": {"guarantee": "NONE", "required_approvers": 2},
    "practice-announcements": {"guarantee": "NONE"},
}


def see_to_demo(state: StateFolder) -> str:
    """The token of the example; pool, queues and downstreams with it. A lost or revoked token is replaced."""
    actor = system("up")
    make_places(actor)
    return _token(state, actor)


def make_places(actor: Actor) -> None:
    """The pool, the queues and the downstreams, unless they are there. What a person has changed stays as it is."""
    queues.ensure_pool(name=DEMO_POOL, actor=actor)
    for name in (DEMO_QUEUE, PRACTICE_QUEUE):
        queues.ensure_queue(name=name, active_pool=DEMO_POOL, actor=actor)
    queues.ensure_queue(
        name=MOVING_QUEUE,
        active_pool=DEMO_POOL,
        actor=actor,
        rollout_stage=RolloutStage.SHADOW,
        **MOVING_POLICY,
    )
    for name, kind, guarantee in DEMO_DOWNSTREAMS:
        downstreams.register_downstream(name=name, kind=kind, guarantee=guarantee, actor=actor)
    for name, described in PRACTICE_DOWNSTREAMS.items():
        downstreams.register_downstream(name=name, kind="http", actor=actor, **described)


def _token(state: StateFolder, actor: Actor) -> str:
    kept = state.path / "fleet_token"
    if kept.exists():
        token = kept.read_text().strip()
        worker = credentials.find_worker(token=token)
        if worker is not None and _suffices(worker):
            return token
    _, token = credentials.create_credential(
        name="example-fleet",
        pool=DEMO_POOL,
        queues=list(DEMO_QUEUES),
        scopes=list(DEMO_SCOPES),
        actor=actor,
    )
    state.keep(kept.name, token)
    return token


def _suffices(worker: Worker) -> bool:
    """One of an earlier version reached less; it is left to whoever may still use it."""
    return worker.queues.issuperset(DEMO_QUEUES) and worker.scopes.issuperset(DEMO_SCOPES)
