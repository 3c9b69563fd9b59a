"""The coordinator as a Django application."""

from django.apps import AppConfig


class CoordinatorConfig(AppConfig):
    name = "coordinator"
    label = "coordinator"
    verbose_name = "Coordinator"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        # Binds shared tasks to our Celery app in every process that may send one.
        from coordinator.site import celery as _celery  # noqa: F401
