"""`/queues`: each lane with its epoch, intake, pool, stage and policy."""

from django.http import HttpRequest, HttpResponse

from console.pages import page, refuse, show
from console.people import permit
from coordinator.selectors import console_overview, events, queues


@page()
def queue_list(request: HttpRequest) -> HttpResponse:
    context = {
        "queues": console_overview.read_queues_now(),
        "may_operate": permit(request, "operate_incidents"),
    }
    return show(request, "console/queues.html", context, every_seconds=10)


@page()
def queue(request: HttpRequest, name: str) -> HttpResponse:
    record = queues.find_queue(name=name)
    if record is None:
        return refuse(request, 404, {"what": name})
    now = next((each for each in console_overview.read_queues_now() if each.name == name), None)
    history = events.list_events(events.EventFilters(queue=name, without_task=True))[:30]
    context = {
        "queue": record,
        "now_of_queue": now,
        "events": [events.event_record(row) for row in history],
        "may_operate": permit(request, "operate_incidents"),
    }
    return show(request, "console/queue.html", context, every_seconds=10)
