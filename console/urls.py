"""The routes of the console."""

from django.urls import path

from console.views import (
    accounts,
    credentials,
    decisions,
    finding,
    overview,
    payloads,
    persons,
    queues,
    runs,
    tasks,
)

app_name = "console"
urlpatterns = [
    path("", overview.overview, name="overview"),
    path("find", finding.find, name="find"),
    path("runs", runs.run_list, name="runs"),
    path("runs/<uuid:run_id>", runs.run_graph, name="run"),
    path("runs/<uuid:run_id>/lineage", runs.run_lineage, name="run-lineage"),
    path("runs/<uuid:run_id>/cancel", decisions.cancel_run, name="run-cancel"),
    path("tasks", tasks.task_list, name="tasks"),
    path("tasks/<uuid:task_id>", tasks.task_attempts, name="task"),
    path("tasks/<uuid:task_id>/candidates", tasks.task_candidates, name="task-candidates"),
    path("tasks/<uuid:task_id>/events", tasks.task_events, name="task-events"),
    path("tasks/<uuid:task_id>/input", tasks.task_input, name="task-input"),
    path("tasks/<uuid:task_id>/raw", tasks.task_raw, name="task-raw"),
    path("tasks/<uuid:task_id>/cancel", decisions.cancel, name="task-cancel"),
    path("tasks/<uuid:task_id>/reopen", decisions.reopen, name="task-reopen"),
    path("tasks/<uuid:task_id>/revise", decisions.revise, name="task-revise"),
    path("tasks/<uuid:task_id>/download/<str:part>", payloads.download, name="download"),
    path("queues", queues.queue_list, name="queues"),
    path("queues/<path:name>/intake", decisions.intake, name="queue-intake"),
    path("queues/<path:name>", queues.queue, name="queue"),
    path("credentials", credentials.credential_list, name="credentials"),
    path("credentials/new", credentials.create, name="credential-new"),
    path("credentials/<uuid:credential_id>", credentials.credential, name="credential"),
    path("credentials/<uuid:credential_id>/revoke", credentials.revoke, name="credential-revoke"),
    path("credentials/<uuid:credential_id>/rotate", credentials.rotate, name="credential-rotate"),
    path("people", persons.people, name="people"),
    path("people/<int:user_id>", persons.person, name="person"),
    path("people/<int:user_id>/role", persons.role, name="person-role"),
    path("people/<int:user_id>/tokens/new", persons.token_new, name="person-token-new"),
    path(
        "people/<int:user_id>/tokens/<int:token_id>/revoke",
        persons.token_revoke,
        name="person-token-revoke",
    ),
    path("more", accounts.menu, name="menu"),
    path("profile", accounts.profile, name="profile"),
    path("profile/theme", accounts.theme, name="theme"),
    path("shortcuts", accounts.shortcuts, name="shortcuts"),
    path("sign-in", accounts.sign_in, name="sign-in"),
    path("sign-out", accounts.sign_out, name="sign-out"),
]
