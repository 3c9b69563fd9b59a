"""The web server's command: granian, a few processes, and threads that mostly wait."""

import os
import resource
from typing import Final

WEB_PROCESSES: Final = 2
# Idle workers wait on the server for a hint of work; a thread each, so that they can't starve the rest.
WEB_THREADS: Final = 40
#: Connections that a process keeps open, most of them idle: a fleet has one for each agent. Beyond that, new ones wait
#: until an old one is closed, which an idle one is after granian's 30 seconds.
WEB_CONNECTIONS: Final = 8_192
#: A head that is longer is refused (431); a body is read in parts of this size.
MOST_HEAD_BYTES: Final = 65_536
#: Files that a process needs besides: the database, logs, code.
_OTHER_FILES: Final = 256


def web_options(
    *,
    host: str,
    port: int,
    processes: int = WEB_PROCESSES,
    threads: int = WEB_THREADS,
    application: str = "coordinator.site.wsgi:application",
) -> list[str]:
    """What stands behind `granian`, for every server that we start: in production, in tests and measurements."""
    return [
        *("--interface", "wsgi", "--host", host, "--port", str(port), "--no-ws"),
        *("--workers", str(processes), "--blocking-threads", str(threads)),
        *("--backlog", "2048", "--backpressure", str(connections())),
        *("--http1-buffer-size", str(MOST_HEAD_BYTES)),
        *("--workers-kill-timeout", "3", "--log-level", "error", application),
    ]


#: glibc's allocator, unless the environment says otherwise. By default each thread gets an arena of its own, whose free
#: space no other uses; and once a large block was freed, further ones of its size come from the heap, which keeps them.
_MALLOC: Final = {
    "MALLOC_ARENA_MAX": "2",
    "MALLOC_MMAP_THRESHOLD_": "131072",
    "MALLOC_TRIM_THRESHOLD_": "131072",
}


def threads_environment() -> dict[str, str]:
    """Of a process with many threads and, now and then, a body of a megabyte: memory that is freed is given back."""
    return {name: os.environ.get(name, value) for name, value in _MALLOC.items()}


def connections() -> int:
    """WEB_CONNECTIONS, or as many as the system's limit of open files leaves room for."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most == resource.RLIM_INFINITY:
        return WEB_CONNECTIONS
    return max(64, min(WEB_CONNECTIONS, most - _OTHER_FILES))


def raise_file_limit() -> None:
    """Let this process and its children open as many files as the system allows them."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
