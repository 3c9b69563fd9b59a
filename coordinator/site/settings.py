"""Settings of the coordinator and the console, all of them by environment: docs/configuration.md lists each."""

from pathlib import Path

from coordinator.site import environment
from coordinator.site.broker import broker_settings
from coordinator.site.databases import database_settings
from coordinator.site.logs import logging_settings
from coordinator.site.security import (
    CONTENT_SECURITY_POLICY,  # noqa: F401 - a setting
    DEVELOPMENT_SECRET,
    refuse_unsafe_production,
)

BASE_DIR = Path(__file__).resolve().parent.parent.parent
STATE_DIR = environment.state_folder(BASE_DIR)
ENVIRONMENT = environment.choice("TENURE_ENV", "development", ("development", "production"))
PRODUCTION = ENVIRONMENT == "production"

DEBUG = environment.flag("DEBUG")
SECRET_KEY = environment.text("SECRET_KEY", DEVELOPMENT_SECRET)
SECRET_KEY_FALLBACKS = environment.words("SECRET_KEY_FALLBACKS")
ALLOWED_HOSTS = environment.words(
    "ALLOWED_HOSTS", () if PRODUCTION else ("localhost", ".localhost", "127.0.0.1", "[::1]")
)
CSRF_TRUSTED_ORIGINS = environment.words("CSRF_TRUSTED_ORIGINS")
if PRODUCTION:
    refuse_unsafe_production(secret_key=SECRET_KEY, debug=DEBUG, allowed_hosts=ALLOWED_HOSTS)

ROOT_URLCONF = "coordinator.site.urls"
WSGI_APPLICATION = "coordinator.site.wsgi.application"
APPEND_SLASH = False
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

INSTALLED_APPS = [
    "coordinator.site.apps.Administration",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "django_filters",
    "django_htmx",
    "template_partials",
    "csp",
    "axes",
    "coordinator.apps.CoordinatorConfig",
    "console",
]

MIDDLEWARE = [
    "coordinator.site.middleware.RequestContext",
    "django.middleware.security.SecurityMiddleware",
    "coordinator.api.middleware.ApiRequests",
    "csp.middleware.CSPMiddleware",
    "console.unavailable.Unavailable",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "axes.middleware.AxesMiddleware",
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.template.context_processors.i18n",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "console.context.shell",
            ],
        },
    }
]

# --- data ---------------------------------------------------------------------------------------------------------

DATABASES = {"default": database_settings(STATE_DIR)}

STATICFILES_DIRS = [BASE_DIR / "static"]
STATIC_URL = "/static/"
# Development serves from the sources and has no such folder; production serves what collectstatic made.
STATIC_ROOT = (
    Path(environment.text("TENURE_STATIC_ROOT", str(BASE_DIR / "staticfiles")))
    if PRODUCTION
    else None
)
WHITENOISE_USE_FINDERS = not PRODUCTION
WHITENOISE_AUTOREFRESH = DEBUG

# What is kept of the database outside of it (contract 12). Processes on several hosts share it.
IDENTITY_FILE = Path(environment.text("TENURE_IDENTITY_FILE", str(STATE_DIR / "identity.json")))

BLOB_DIR = Path(environment.text("TENURE_BLOB_DIR", str(STATE_DIR / "blobs")))
BLOB_STORAGE = environment.text(
    "TENURE_BLOB_STORAGE", "django.core.files.storage.FileSystemStorage"
)
BLOB_OPTIONS = environment.mapping("TENURE_BLOB_STORAGE_OPTIONS")
# Adapters for the coordinator's own look-ups: package.module:name (coordinator/site/adapters.py).
ADAPTERS = environment.text("TENURE_ADAPTERS")
# How long a request for approval, and a grant, stand (contract 9).
#: Besides those that coordinator/secrets.py knows: names whose values people are shown masked.
SECRET_NAMES = frozenset(
    "".join(char for char in word.lower() if char.isalnum())
    for word in environment.words("TENURE_SECRET_NAMES")
)
APPROVAL_SECONDS = environment.number("TENURE_APPROVAL_SECONDS", 24 * 60 * 60, minimum=60)
# Who may read /metrics without a token: nobody, or this machine itself (coordinator/api/views/metrics.py).
METRICS_OPEN = environment.choice("TENURE_METRICS_OPEN", "no", ("no", "loopback"))
MAX_BLOB_BYTES = environment.number("TENURE_MAX_BLOB_BYTES", 1024**3, minimum=1)
# What `prune` keeps (coordinator/services/pruning.py); 0 keeps for ever.
KEEP_ANSWERS_HOURS = environment.number("TENURE_KEEP_ANSWERS_HOURS", 48, minimum=24)
KEEP_BLOBS_DAYS = environment.number("TENURE_KEEP_BLOBS_DAYS", 30)
KEEP_RUNS_DAYS = environment.number("TENURE_KEEP_RUNS_DAYS", 0)
KEEP_SHADOW_DAYS = environment.number("TENURE_KEEP_SHADOW_DAYS", 90)
STORAGES = {
    "default": {
        "BACKEND": "django.core.files.storage.FileSystemStorage",
        "OPTIONS": {"location": str(STATE_DIR / "files")},
    },
    "blobs": {
        "BACKEND": BLOB_STORAGE,
        "OPTIONS": BLOB_OPTIONS
        or ({"location": str(BLOB_DIR)} if BLOB_STORAGE.endswith(".FileSystemStorage") else {}),
    },
    "staticfiles": {
        "BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"
        if PRODUCTION
        else "django.contrib.staticfiles.storage.StaticFilesStorage"
    },
}

# --- people -------------------------------------------------------------------------------------------------------

AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",
    "django.contrib.auth.backends.ModelBackend",
]
PASSWORD_HASHERS = [
    "django.contrib.auth.hashers.Argon2PasswordHasher",
    "django.contrib.auth.hashers.PBKDF2PasswordHasher",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {
        "NAME": "django.contrib.auth.password_validation.MinimumLengthValidator",
        "OPTIONS": {"min_length": 12},
    },
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "coordinator.site.passwords.EndsTokens"},
]
LOGIN_URL = "console:sign-in"
LOGIN_REDIRECT_URL = "console:overview"
LOGOUT_REDIRECT_URL = "console:sign-in"

#: Seconds that a code to set a first password holds; long enough for a week-end.
PASSWORD_RESET_TIMEOUT = 72 * 3_600

AXES_FAILURE_LIMIT = environment.number("TENURE_SIGN_IN_FAILURES", 10, minimum=1)
AXES_COOLOFF_TIME = (
    environment.number("TENURE_SIGN_IN_LOCKOUT_MINUTES", 15, minimum=1) / 60
)  # hours, as axes counts
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_RESET_ON_SUCCESS = True
AXES_VERBOSE = False
AXES_LOCKOUT_CALLABLE = "console.views.accounts.locked_out"
CSRF_FAILURE_VIEW = "console.views.errors.csrf_failed"

# --- the wire -----------------------------------------------------------------------------------------------------

BEHIND_TLS = environment.flag("TENURE_BEHIND_TLS", default=PRODUCTION)
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = BEHIND_TLS
SESSION_COOKIE_HTTPONLY = CSRF_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
COOKIE_SUFFIX = environment.text("TENURE_COOKIE_SUFFIX")
SESSION_COOKIE_NAME = f"tenure_session{COOKIE_SUFFIX}"
CSRF_COOKIE_NAME = f"tenure_csrf{COOKIE_SUFFIX}"
SESSION_COOKIE_AGE = 60 * 60 * 12
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
SECURE_HSTS_SECONDS = 60 * 60 * 24 * 365 if BEHIND_TLS else 0
SILENCED_SYSTEM_CHECKS = [
    "security.W005",  # HSTS for subdomains and
    "security.W021",  # the preload list: the whole domain's decision, not ours
    "security.W008",  # redirecting to HTTPS is usually the proxy's part; TENURE_SSL_REDIRECT makes it ours
]
SECURE_SSL_REDIRECT = environment.flag("TENURE_SSL_REDIRECT")
if environment.flag("TENURE_TRUST_FORWARDED_PROTO"):
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
X_FRAME_OPTIONS = "DENY"
DATA_UPLOAD_MAX_MEMORY_SIZE = 1024 * 1024  # contract 5: bodies are at most 1 MiB

REST_FRAMEWORK = {
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "DEFAULT_SCHEMA_CLASS": "coordinator.api.schema.OperationSchema",
    "UNAUTHENTICATED_USER": None,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Tenure",
    "DESCRIPTION": "claim.v1: claims, fences and canonical commits for fleets of AI agents.",
    "VERSION": "1",
    "OAS_VERSION": "3.1.0",
    "LICENSE": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "POSTPROCESSING_HOOKS": ["coordinator.api.schema.add_components"],
}

# --- time and language --------------------------------------------------------------------------------------------

USE_TZ = True
TIME_ZONE = "UTC"
USE_I18N = True
LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("zh-hans", "简体中文")]
LOCALE_PATHS = [BASE_DIR / "locale"]

# --- work in the background ---------------------------------------------------------------------------------------

_broker = broker_settings(STATE_DIR)
CELERY_BROKER_URL: str = _broker["url"]
CELERY_BROKER_TRANSPORT_OPTIONS = _broker["options"]
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_TASK_DEFAULT_QUEUE = environment.text("TENURE_CELERY_QUEUE", "tenure")
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True  # a killed worker's task is delivered again; all of ours may run twice
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_ENABLE_REMOTE_CONTROL = False
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_TIMEZONE = "UTC"

LOG_FORMAT = environment.choice(
    "TENURE_LOG_FORMAT", "json" if PRODUCTION else "text", ("json", "text")
)
LOGGING = logging_settings(
    as_json=LOG_FORMAT == "json", level=environment.text("TENURE_LOG_LEVEL", "INFO").upper()
)
