"""Where everything is: the API for workers, the console for people, the admin for the rest."""

from django.contrib import admin
from django.urls import include, path, re_path

from coordinator.api.views.health import healthz, readyz
from coordinator.api.views.meta import unknown_route
from coordinator.api.views.metrics import prometheus

urlpatterns = [
    path("api/v1/", include("coordinator.api.urls")),
    re_path("^api(?:/|$)", unknown_route),
    path("healthz", healthz),
    path("readyz", readyz),
    path("metrics", prometheus),
    path("admin/", admin.site.urls),
    path("", include("console.urls")),
]

handler403 = "console.views.errors.forbidden"
handler404 = "console.views.errors.not_found"
handler500 = "console.views.errors.failed"
