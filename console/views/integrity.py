"""`/audit/integrity`: passes over the stored history, what they found broken, and a pass on demand."""

from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _

from console.access_forms import take_faults
from console.filters import as_uuid
from console.forms import Reason
from console.pages import forbid, page, refuse, show
from console.people import actor_of, permit
from coordinator.outcomes import Refusal
from coordinator.selectors.audit_watch import read_watch
from coordinator.selectors.audits import audit_record, find_audit, list_audits
from coordinator.services.audits import start_audit

PASSES_SHOWN = 20
FINDINGS_SHOWN = 200
_BOTH = ("GET", "HEAD", "POST")


@page()
def integrity(request: HttpRequest) -> HttpResponse:
    newest = [audit_record(row) for row in list_audits()[: PASSES_SHOWN + 1]]
    before = as_uuid(request.GET.get("before"))
    earlier = list_audits().filter(audit_id__lt=before)[: PASSES_SHOWN + 1] if before else []
    passes = [audit_record(row) for row in earlier] if before else newest
    last = next((each for each in newest if each.finished_at), None)
    report = find_audit(last.audit_id) if last and last.broken else None
    context = {
        "passes": passes[:PASSES_SHOWN],
        "older": passes[PASSES_SHOWN - 1].audit_id if len(passes) > PASSES_SHOWN else None,
        "last": last,
        "watched": read_watch(),
        "open": [each for each in newest if not each.finished_at],
        "findings": report.findings[:FINDINGS_SHOWN] if report else [],
        "may_run": permit(request, "operate_incidents"),
    }
    return show(request, "console/integrity.html", context, every_seconds=5)


@page()
def one_pass(request: HttpRequest, audit_id: UUID) -> HttpResponse:
    report = find_audit(audit_id)
    if report is None:
        return refuse(request, 404, {"what": str(audit_id)})
    context = {
        "audit": report.audit,
        "findings": report.findings[:FINDINGS_SHOWN],
        "more": max(0, sum(report.audit.broken.values()) - FINDINGS_SHOWN),
    }
    return show(request, "console/integrity_pass.html", context)


@page(methods=_BOTH)
def run(request: HttpRequest) -> HttpResponse:
    allowed = permit(request, "operate_incidents")
    if request.method == "POST" and not allowed:
        return forbid(request, allowed, "start_audit")
    form = Reason(request.POST or None)
    if request.method == "POST" and form.is_valid():
        answer = start_audit(reason=form.cleaned_data["reason"], actor=actor_of(request))
        if not isinstance(answer, Refusal):
            messages.success(request, _("Asked for. The background worker reads the history now."))
            return redirect("console:audit-integrity")
        take_faults(form, answer)
    context = {"form": form, "allowed": allowed}
    status = 422 if form.is_bound else 200
    return show(request, "console/integrity_run.html", context, status=status)
