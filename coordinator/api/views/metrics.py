"""The figures for Prometheus: the same from every replica, because they stand in the database (contract 14)."""

from ipaddress import ip_address
from typing import Final

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseBase

from coordinator.access import Operation
from coordinator.api.endpoint import Call, Endpoint, operation
from coordinator.api.exposition import expose, families_of
from coordinator.api.exposition_gauges import Reading
from coordinator.selectors.audit_watch import read_watch
from coordinator.selectors.coverage import read_coverage
from coordinator.selectors.drills import read_drills
from coordinator.selectors.gauges import read_gauges, read_unknown_by_downstream
from coordinator.selectors.scrape import read_progress, read_totals
from coordinator.services.roll_ups import roll_up_if_stale

#: A request with one of these came through a proxy: its address is the proxy's.
_FORWARDED: Final = ("HTTP_X_FORWARDED_FOR", "HTTP_FORWARDED", "HTTP_X_REAL_IP", "HTTP_VIA")


class Metrics(Endpoint):
    """`/metrics` and `/api/v1/metrics`: for whoever may view, or for this very machine where it was opened to it."""

    def dispatch(self, request: HttpRequest, *args: object, **path: str) -> HttpResponseBase:
        if request.method in ("GET", "HEAD") and is_open_to(request):
            return self.guarded(request, lambda: scrape(request))
        return super().dispatch(request, *args, **path)

    @operation(
        Operation.READ_METRICS,
        "The figures, in Prometheus' or OpenMetrics' text format",
        answer=str,
    )
    def get(self, call: Call[None]) -> HttpResponse:
        return scrape(call.request)


def is_open_to(request: HttpRequest) -> bool:
    """TENURE_METRICS_OPEN=loopback: to callers on this machine that no proxy stands before."""
    if settings.METRICS_OPEN != "loopback" or any(name in request.META for name in _FORWARDED):
        return False
    try:
        return ip_address(request.META.get("REMOTE_ADDR", "")).is_loopback
    except ValueError:
        return False


def scrape(request: HttpRequest) -> HttpResponse:
    roll_up_if_stale()
    read = Reading(
        totals=read_totals(),
        queues=read_gauges(),
        downstreams=read_unknown_by_downstream(),
        coverage=read_coverage(),
        drills=read_drills(),
        progress=read_progress(),
        watched=read_watch(),
    )
    text, content_type = expose(families_of(read), request.META.get("HTTP_ACCEPT", ""))
    return HttpResponse(text, content_type=content_type)


_view = Metrics.as_view()


def prometheus(request: HttpRequest) -> HttpResponseBase:
    """`/metrics`, where scrapers look first; the API's own description names the other address."""
    return _view(request)
