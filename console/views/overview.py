"""`/`: what needs a human, the queues, the last commits and fences."""

from datetime import timedelta

from django.http import HttpRequest, HttpResponse

from console.figures import show_card
from console.needs import find_needs
from console.pages import page, shell_of, show
from coordinator.selectors import console_overview
from coordinator.selectors.assurance import read_assurance
from coordinator.selectors.console_causes import read_causes
from coordinator.selectors.numbers import read_numbers

EVERY_SECONDS = 5


@page()
def overview(request: HttpRequest) -> HttpResponse:
    shell = shell_of(request)
    queues = console_overview.read_queues_now()
    refusals = console_overview.read_refusals(shell.now)
    numbers = read_numbers()
    context = {
        "numbers": numbers,
        "health": [show_card(card) for card in numbers.cards],
        "queues": queues,
        "needs": find_needs(queues, refusals, shell, read_assurance(), read_causes()),
        "commits": console_overview.read_last_commits(),
        "fences": refusals.fences,
        "hour": console_overview.count_commits_since(shell.now - timedelta(hours=1)),
    }
    return show(request, "console/overview.html", context, every_seconds=EVERY_SECONDS)
