"""`/find`: from whatever a person has in hand (an id of a task or a run, a node's name) to its page."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from console.filters import MAX_TEXT, as_uuid, query_string
from console.pages import page
from coordinator.selectors import runs, tasks


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
    return redirect(reverse("console:tasks") + query_string({"q": text}))
