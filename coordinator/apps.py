"""The coordinator as a Django application."""

from django.apps import AppConfig
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
