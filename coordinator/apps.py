"""The coordinator as a Django application."""

from django.apps import AppConfig
from django.conf import settings
from django.core.cache import close_caches
from django.core.signals import request_finished, request_started
from django.db import close_old_connections, reset_queries
from django.db.models.signals import post_migrate


class CoordinatorConfig(AppConfig):
    name = "coordinator"
    label = "coordinator"
    verbose_name = "Coordinator"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        # Binds shared tasks to our Celery app in every process that may send one.
        from coordinator.services.roles import ensure_roles
        from coordinator.site import celery as _celery  # noqa: F401

        # After django.contrib.auth has made the permissions: it connected before us.
        post_migrate.connect(ensure_roles, sender=self, dispatch_uid="coordinator.ensure_roles")
        _keep_requests_short()


def _keep_requests_short() -> None:
    """Of what Django does for each request, only what is needed here: its connection goes back at its end.

    There is no cache to close and no list of queries to empty (but for DEBUG); and a connection that the server has
    ended meanwhile is put away where it is taken from the pool (site/postgresql).
    """
    if settings.DEBUG:
        return
    request_started.disconnect(reset_queries)
    request_started.disconnect(close_old_connections)
    request_finished.disconnect(close_caches)
