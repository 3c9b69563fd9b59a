"""Saved views: filters of the list of tasks that people keep for each other (console design, 7.2)."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Length, Lower, Now

MAX_VIEW_NAME = 80
MAX_VIEW_QUERY = 2_000

models.TextField.register_lookup(Length)


class SavedView(models.Model):
    """A name and the query string that it stands for. Everybody sees all of them."""

    view_id = models.UUIDField(primary_key=True)
    name = models.TextField()
    query = models.TextField()
    made_by = models.IntegerField()  # the person's key; their name as events tell it
    made_by_name = models.TextField()
    made_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(Lower("name"), name="view_name_once"),
            models.CheckConstraint(
                name="view_is_bounded",
                condition=Q(name__length__range=(1, MAX_VIEW_NAME))
                & Q(query__length__range=(1, MAX_VIEW_QUERY)),
            ),
        ]

    def __str__(self) -> str:
        return self.name
