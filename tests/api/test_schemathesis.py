"""Requests made up from the schema, good and bad ones: nothing undocumented may come back, and no 500."""

import subprocess
import sys
from pathlib import Path

import pytest
from pytest_django.live_server_helper import LiveServer

from coordinator.access import RULES, Operation
from coordinator.api.throttling import FAILURES

from .callers import Api, make_world, new_key, worker

# A request that fits the schema may still make no sense: an unknown dependency, a cycle (422), a cursor that is
# none of ours (400). Where the checks would expect other statuses they are told ours. A batch answers for each
# item: one that violates the schema is refused within a 200.
CONFIG = """
[parameters]
"path.queue" = "q"
"path.task_id" = "{task}"
"path.run_id" = "{run}"
"path.attempt_id" = "{attempt}"

[checks.positive_data_acceptance]
expected-statuses = ["2xx", 400, 401, 403, 404, 409, 422, 428, 503]

[checks.negative_data_rejection]
expected-statuses = [400, 401, 403, 404, 406, 409, 413, 415, 422, 428]

[checks.missing_required_header]
expected-statuses = [400, 401, 403, 428]

[[operations]]
include-operation-id = ["renew_leases", "commit_results"]
checks.negative_data_rejection.enabled = false
"""


@pytest.mark.slow
@pytest.mark.parametrize("who", ["people", "workers"])
def test_nothing_is_found(
    who: str,
    transactional_db: None,
    live_server: LiveServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(FAILURES, "max_failures", 1_000_000)  # bad tokens are part of what is tried
    api = make_world()
    if who == "people":
        token = api.admin.token
        operations = [operation for operation, rule in RULES.items() if rule.permission]
    else:
        token = worker("fuzzed", scopes=("work", "submit")).token
        operations = [operation for operation, rule in RULES.items() if not rule.permission]
    config = tmp_path / "schemathesis.toml"
    config.write_text(CONFIG.format(**something_to_find(api)))
    command = [
        str(Path(sys.executable).parent / "schemathesis"),
        "--config-file", str(config), "run", f"{live_server.url}/api/v1/schema",
        "--header", f"Authorization: Bearer {token}",
        "--phases", "examples,coverage,fuzzing", "--max-examples", "2", "--generation-deterministic",
        # Python 3.11's parser is not safe in two threads, and hypothesis parses the source of its filters.
        "--workers", "1", "--request-timeout", "120",
        "--suppress-health-check", "all", "--warnings", "off", "--no-color",
    ]  # fmt: skip
    for operation in operations:
        if operation is not Operation.WAIT_FOR_WORK:  # which waits
            command += ["--include-operation-id", operation.value]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout[-8000:] + found.stderr[-2000:]


def something_to_find(api: Api) -> dict[str, str]:
    """A run, one of its tasks, and an attempt that is over."""
    api.submit()
    claim = api.claim()
    path = f"/attempts/{claim['fence']['attempt_id']}/release"
    assert api.worker.post(path, {"fence": claim["fence"]}, key=new_key()).status == 200
    fence = claim["fence"]
    return {"task": fence["task_id"], "run": claim["run_id"], "attempt": fence["attempt_id"]}
