"""Django's admin with a door of our own."""

from django.contrib.admin.apps import AdminConfig


class Administration(AdminConfig):
    default_site = "coordinator.site.door.Door"
