"""The WSGI entry point, for granian and any other server."""

import os

from django.core.wsgi import get_wsgi_application

from coordinator.site.unread import ReadsWhatIsLeft

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "coordinator.site.settings")

application = ReadsWhatIsLeft(get_wsgi_application())

# Before the first request: a copy, or a restored database, is to grant nothing (contract 12). Where the database
# can't be asked yet, the first claim asks.
from coordinator.site.starting import compare_identity  # noqa: E402 (Django is set up by the line above)

compare_identity()

from coordinator.site.tracing import start_tracing  # noqa: E402 (in each process, after any fork)

start_tracing("tenure-web")

from coordinator.site.starting import settle_in  # noqa: E402 (last: everything is there)

settle_in()
