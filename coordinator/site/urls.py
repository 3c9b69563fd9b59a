"""Where everything is: the API for workers, the console for people, the admin for the rest."""

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("api/v1/", include("coordinator.api.urls")),
    path("admin/", admin.site.urls),
    path("", include("console.urls")),
]
