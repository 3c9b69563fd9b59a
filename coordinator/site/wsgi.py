"""The WSGI entry point, for granian and any other server."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "coordinator.site.settings")

application = get_wsgi_application()
