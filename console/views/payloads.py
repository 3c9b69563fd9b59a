"""Payloads to download whole: the input, the canonical result, a candidate. Never shown as a page."""

from uuid import UUID

from django.http import HttpRequest, HttpResponse

from console.filters import as_uuid
from console.pages import page, refuse
from coordinator.secrets import mask_text
from coordinator.selectors import console_task


@page(needs="view_payload")
def download(request: HttpRequest, task_id: UUID, part: str) -> HttpResponse:
    """`part` is `input`, `result`, or `candidate` with `attempt` and `digest` in the query; secrets are masked."""
    payload, name = None, part
    match part:
        case "input":
            payload = console_task.read_input(task_id, whole=True)
        case "result":
            payload = console_task.read_result(task_id, whole=True)
        case "candidate":
            attempt, digest = as_uuid(request.GET.get("attempt")), request.GET.get("digest", "")
            payload = (
                console_task.read_candidate(task_id, attempt, digest, whole=True)
                if attempt
                else None
            )
            name = f"candidate-{attempt}"
    if payload is None:
        return refuse(request, 404, {"what": part})
    response = HttpResponse(mask_text(payload.text).text, content_type="application/json")
    response["Content-Disposition"] = f'attachment; filename="{task_id}-{name}.json"'
    return response
