"""A fleet that has to be rolled back, for the incident wizard: claims, a staged result, a call that may be out.

Made by the services; only instants are moved afterwards.
"""

from dataclasses import dataclass
from uuid import UUID

from coordinator.actors import Worker
from coordinator.models import IncidentHold
from coordinator.services.grants import Claim
from coordinator.services.incident_hearings import StepTaken
from coordinator.services.incidents import open_incident
from coordinator.states import Guarantee
from tests import world
from tests.console.scene import any_time
from tests.effects import ledger

QUEUE = "orders"
WHY = "Build 42 writes totals without tax."


@dataclass(frozen=True, slots=True)
class Siege:
    """What the old fleet holds, and who takes over."""

    blue: Worker
    green: Worker
    held: Claim  # a lease that runs
    staged: Claim  # a result put aside
    sent: Claim  # its call may be out
    effect_id: str


def compose_siege() -> Siege:
    world.queue(name=QUEUE)
    world.pool(name="green")
    world.pool(name="idle")
    blue = world.worker(name="orders-blue", queues=(QUEUE,))
    green = world.worker(name="orders-green", pool_name="green", queues=(QUEUE,))
    ledger.register(Guarantee.CONDITIONAL_WRITE, name="ledger")
    run = world.submit(
        world.node("price", kind="price"),
        world.node("total", kind="total"),
        world.node("book", kind="book", slots={"out": "ledger"}),
        world.node("mail", "price", kind="mail"),
        queue_name=QUEUE,
        name="Order 1184",
    )
    held, staged, sent = (
        world.claim_one(
            by=blue, of=world.task_id(run, name), queue_name=QUEUE, owner=f"{name}-1@blue"
        )
        for name in ("price", "total", "book")
    )
    world.stage(staged, by=blue, result={"total": "1184.00"})
    prepared = ledger.try_prepare(
        sent, by=blue, payload={"amount": "1184.00", "currency": "EUR"}, downstream="ledger"
    )
    effect = prepared.effect  # type: ignore[union-attr]
    ledger.accept(effect, sent.fence, by=blue)
    return Siege(blue, green, held, staged, sent, effect.effect_id)


def declare(*, by: str = "olga") -> UUID:
    answer = open_incident(queues=[QUEUE], reason=WHY, actor=ledger.person(by))
    assert isinstance(answer, StepTaken), answer
    return answer.incident_id


def let_leases_run_out(incident_id: UUID) -> None:
    """The leases that the revoked attempts had lie in the past; nobody waits for them."""
    with any_time() as cursor:
        cursor.execute(
            "UPDATE coordinator_incidenthold SET lease_expires_at = clock_timestamp() - interval '1 second'"
            " WHERE incident_id = %s",
            [incident_id],
        )
    assert IncidentHold.objects.filter(incident_id=incident_id).exists()
