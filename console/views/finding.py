"""`/find`: from whatever a person has in hand (any id, a node's name) to its page."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from console.filters import MAX_TEXT, as_uuid, query_string
from console.pages import page
from coordinator.selectors import runs, tasks
from coordinator.selectors.approvals import find_approval
from coordinator.selectors.effects import find_effect
from coordinator.selectors.incidents import find_incident

EFFECT_ID_CHARS = 64


@page()
def find(request: HttpRequest) -> HttpResponse:
    text = request.GET.get("q", "").strip()[:MAX_TEXT]
    wanted = as_uuid(text)
    if wanted and runs.find_run(wanted):
        return redirect("console:run", run_id=wanted)
    if wanted and tasks.find_task(wanted):
        return redirect("console:task", task_id=wanted)
    attempt = tasks.find_attempt(wanted) if wanted else None
    if attempt:
        return redirect("console:task", task_id=attempt.task_id)
    if wanted and find_approval(wanted):
        return redirect("console:approval", approval_id=wanted)
    if wanted and find_incident(wanted):
        return redirect("console:incident", incident_id=wanted)
    effect = find_effect(text.lower()) if len(text) == EFFECT_ID_CHARS else None
    if effect:
        return redirect("console:effect", effect_id=effect.effect_id)
    return redirect(reverse("console:tasks") + query_string({"q": text}))
