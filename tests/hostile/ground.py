"""Everything that the console has a page for, once: so that an attack can be tried on each of its routes."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from django.test import Client
from django.urls import reverse

from console.urls import urlpatterns
from coordinator.actors import system
from coordinator.models import Event, OperatorToken
from coordinator.services.audits import run_audit
from coordinator.services.drills import run_drill
from coordinator.services.promotions import PromotionAsked
from coordinator.services.saved_views import save_view
from coordinator.states import RolloutStage
from tests import world
from tests.console import desk, rollout, scene, siege
from tests.shadow import promoting
from tests.shadow.feeds import feeder, settle, tell

_BACKEND: Final = "django.contrib.auth.backends.ModelBackend"
#: Routes for those who aren't signed in yet, or for anybody: each is attacked by tests of its own.
DOORS: Final = frozenset({"sign-in", "sign-out", "welcome"})


@dataclass(frozen=True, slots=True)
class Ground:
    """`parts` fill the addresses of routes by the names of their parameters, `of` where a route needs its own."""

    parts: dict[str, Any]
    of: dict[str, dict[str, Any]]

    def addresses(self) -> Iterator[tuple[str, str]]:
        """Name and address of each route of the console, with ids of things that are there."""
        for route in urlpatterns:
            assert route.name is not None
            wanted = route.pattern.converters
            known = self.parts | self.of.get(route.name, {})
            yield (
                route.name,
                reverse(f"console:{route.name}", kwargs={name: known[name] for name in wanted}),
            )


def asked_promotion() -> PromotionAsked:
    """A queue whose gate is open, and one person's word that it may go on."""
    world.queue(name="letterbox", rollout_stage=RolloutStage.SHADOW, promotion_rounds=1)
    tell(
        "A claims 0",
        "A commits 9 r",
        by=feeder("letterbox"),
        key="letter",
        source="post",
        queue="letterbox",
    )
    settle()
    run_drill(queue="letterbox", reason="before it goes on", actor=system("tests"))
    return promoting.asked(RolloutStage.SHADOW, queue="letterbox", confirm="letterbox")


def compose_ground() -> Ground:
    promotion = asked_promotion()
    found = scene.compose()
    rollout.shadowed()
    asked = desk.compose_desk()
    siege.compose_siege()
    audit: Any = run_audit(reason="The yearly look at the history.", actor=world.operator())
    incident_id = siege.declare()
    token = OperatorToken.objects.get(user_id=found.approver)
    view: Any = save_view(name="Ready", query="state=READY", actor=world.operator())
    parts = {
        "request_id": promotion.request_id,
        "view_id": view.view_id,
        "run_id": found.review.run_id,
        "task_id": found.held,
        "event_id": Event.objects.earliest("pk").pk,
        "bulk_id": found.bulk_review,
        "credential_id": found.credential,
        "round_id": rollout.a_mismatch().round_id,
        "name": "review",
        "audit_id": audit.audit_id,
        "user_id": found.approver,
        "token_id": token.pk,
        "approval_id": asked.refund,
        "effect_id": asked.mail,
        "how": "happened",
        "incident_id": incident_id,
        "number": 2,
        "part": "input",
        "form": "csv",
    }
    letters = {"name": "letters"}
    return Ground(
        parts,
        {
            "downstream": letters,
            "downstream-change": letters,
            "downstream-ask": letters,
            "figure": {"name": "coverage"},
            "task-reopen": {"task_id": found.failed},
            "incident-report": {"form": "md"},
            "effect-reveal": {"part": "payload"},
        },
    )


def enter(client: Client, user: Any) -> Client:
    client.force_login(user, backend=_BACKEND)
    return client
