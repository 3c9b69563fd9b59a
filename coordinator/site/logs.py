"""Logs: one JSON object a line in production, readable lines in development. Never a payload, never a token."""

import re
import sys
import traceback
from typing import Any, Final

import structlog

from coordinator.log_lines import merge_words

_TOKEN: Final = re.compile(r"tnr_[a-z]_[A-Za-z0-9_.-]*")
MAX_FRAMES: Final = 40


def without_tokens(text: str) -> str:
    """The text with anything that looks like a token of ours cut short."""
    return _TOKEN.sub("tnr_…", text) if "tnr_" in text else text


def hide_tokens(_logger: Any, _method: str, line: dict[str, Any]) -> dict[str, Any]:
    """The last look at a line: whoever logged it may have been handed more than they knew."""
    return {
        name: without_tokens(value) if isinstance(value, str) else value
        for name, value in line.items()
    }


def tell_exception(_logger: Any, _method: str, line: dict[str, Any]) -> dict[str, Any]:
    """An exception as its types and where it was raised, without its words: they may quote a payload.

    PostgreSQL's quote whole rows, pydantic's the input.
    """
    told = line.pop("exc_info", None)
    error = told[1] if isinstance(told, tuple) else told
    if isinstance(error, BaseException):
        line["exception"] = [
            {"type": type(each).__qualname__, "raised": _frames(each)} for each in _chain(error)
        ]
    return line


def _with_exception(_logger: Any, _method: str, line: dict[str, Any]) -> dict[str, Any]:
    """`exc_info=True` stands for the exception that is being handled."""
    if line.get("exc_info") is True:
        line["exc_info"] = sys.exc_info()
    return line


def _frames(error: BaseException) -> list[str]:
    frames = traceback.extract_tb(error.__traceback__)[-MAX_FRAMES:]
    return [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]


def _chain(error: BaseException) -> list[BaseException]:
    """The error and what it came from, outermost first; at most eight."""
    chain: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and len(chain) < 8:
        chain.append(current)
        current = current.__cause__ or (
            None if current.__suppress_context__ else current.__context__
        )
    return chain


SHARED: list[Any] = [
    merge_words,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
]


def logging_settings(*, as_json: bool, level: str) -> dict[str, Any]:
    """Django's LOGGING; also points structlog at the standard library's handlers."""
    exceptions: list[Any] = (
        [_with_exception, tell_exception] if as_json else [structlog.processors.format_exc_info]
    )
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *SHARED,
            *exceptions,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    renderer: Any = (
        structlog.processors.JSONRenderer()
        if as_json
        else structlog.dev.ConsoleRenderer(colors=False, pad_event_to=0)
    )
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "lines": {
                "()": structlog.stdlib.ProcessorFormatter,
                "foreign_pre_chain": [
                    *SHARED,
                    structlog.stdlib.ExtraAdder(allow=["cause"]),
                    *exceptions,
                ],
                "processors": [
                    structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                    hide_tokens,
                    renderer,
                ],
            }
        },
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "lines"}},
        "root": {"handlers": ["stderr"], "level": "WARNING"},
        "loggers": {
            "tenure": {"level": level},
            "coordinator": {"level": level},
            "console": {"level": level},
            "django": {"level": "WARNING", "propagate": True, "handlers": []},
            "django.request": {"level": "ERROR"},  # refusals are answers, not incidents
            "psycopg.pool": {"level": "ERROR"},  # whoever waited in vain for a connection says so
            "celery": {"level": "WARNING"},
            # It quotes what a job raised; site/celery.py tells of failed jobs without.
            "celery.app.trace": {"level": "CRITICAL"},
        },
    }
