"""What runs in the background: each a thin call of a service, short, and safe to run twice at once."""

from celery import shared_task

from coordinator.actors import system
from coordinator.services import (
    approvals,
    audit_seals,
    audit_watches,
    audits,
    bulk_steps,
    canaries,
    coverage,
    deadlines,
    drills,
    hints,
    identity,
    leases,
    look_ups,
    promotions,
    pruning,
    roll_ups,
    settlements,
    shadow_verdicts,
)
from coordinator.site.adapters import registered_adapters


@shared_task(name="coordinator.tasks.sweep", ignore_result=True)
def sweep() -> int:
    """Mark lapsed leases reclaimable, tell waiting workers, watch canaries. Each second (contract 7, 12)."""
    marked = leases.sweep()
    canaries.watch_canaries(actor=system("canary"))
    for queue_id in marked:
        hints.notify(queue_id)
    return sum(marked.values())


@shared_task(name="coordinator.tasks.settle_runs", ignore_result=True)
def settle_runs() -> int:
    """Settle runs whose last commit's process died before it could."""
    return settlements.settle_active_runs()


@shared_task(name="coordinator.tasks.pass_deadlines", ignore_result=True)
def pass_deadlines() -> int:
    """An acceptance whose deadline has passed without a report is UNKNOWN. Each second (contract 8)."""
    return deadlines.pass_deadlines(actor=system("deadlines"))


@shared_task(name="coordinator.tasks.expire_approvals", ignore_result=True)
def expire_approvals() -> int:
    """Requests and grants that nobody acted on in time expire (contract 9)."""
    return approvals.expire_approvals(actor=system("approvals"))


@shared_task(name="coordinator.tasks.look_up_effects", ignore_result=True)
def look_up_effects() -> int:
    """Ask the registered downstreams about UNKNOWN effects that nobody holds (contract 8.4).

    Not from a database that may be a copy: it contacts nobody.
    """
    if identity.standing_hold():
        return 0
    return look_ups.look_up_effects(adapters=registered_adapters(), actor=system("look-ups"))


@shared_task(name="coordinator.tasks.roll_up_coverage", ignore_result=True)
def roll_up_coverage() -> int:
    """Move the log of counted writes into its totals, and raise an alarm where one is missing (contract 14)."""
    return coverage.roll_up_coverage(actor=system("coverage")).statements


@shared_task(name="coordinator.tasks.roll_up", ignore_result=True)
def roll_up() -> int:
    """Count what happened since the last time (contract 14)."""
    rolled = roll_ups.roll_up()
    return rolled.events if rolled else 0


@shared_task(name="coordinator.tasks.settle_shadow_rounds", ignore_result=True)
def settle_shadow_rounds() -> int:
    """Judge the shadow rounds whose window has passed (contract 13)."""
    return shadow_verdicts.settle_rounds(actor=system("shadow"))


@shared_task(name="coordinator.tasks.settle_promotions", ignore_result=True)
def settle_promotions() -> int:
    """End the requests for a promotion that nobody confirmed in time, or that are void by now (contract 13)."""
    return promotions.settle_promotions()


@shared_task(name="coordinator.tasks.run_drills", ignore_result=True)
def run_drills() -> int:
    """Drill the queues that are due, and watch over those that are overdue (contract 14)."""
    return drills.run_due_drills(actor=system("drill"))


@shared_task(name="coordinator.tasks.confirm_identity", ignore_result=True)
def confirm_identity() -> bool:
    """Compare the database with what is kept outside of it, and keep its epochs there (contract 12)."""
    return not identity.confirm_identity()


@shared_task(name="coordinator.tasks.prune", ignore_result=True)
def prune() -> None:
    """Take away what the settings no longer keep, for some seconds of each minute (contract 17)."""
    pruning.prune(actor=system("prune"), pace=pruning.JOB)


@shared_task(name="coordinator.tasks.prune_strays", ignore_result=True)
def prune_strays() -> int:
    """Take away files that no row names. Seldom: each folder is a request where a store keeps them (contract 7)."""
    return pruning.prune_stray_files()


@shared_task(name="coordinator.tasks.run_bulk_jobs", ignore_result=True)
def run_bulk_jobs() -> int:
    """Take the bulk jobs that people have started a step further (console design, 3.4)."""
    return bulk_steps.run_bulk_step()


@shared_task(name="coordinator.tasks.seal_audit", ignore_result=True)
def seal_audit() -> int:
    """Chain what people did and what was refused since the last time (adr/0021)."""
    return audit_seals.seal_events()


@shared_task(name="coordinator.tasks.continue_audits", ignore_result=True)
def continue_audits() -> int:
    """Go on with the audit of the stored history for a moment, or begin the next (contract 14)."""
    return audits.continue_audits(actor=system("audit"))


@shared_task(name="coordinator.tasks.watch_audit", ignore_result=True)
def watch_audit() -> int:
    """Verify the next pieces of the audit's chain, from the first link again when that is due (adr/0021)."""
    return audit_watches.watch_chain(actor=system("audit"))
