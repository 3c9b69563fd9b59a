# make run    everything on this machine, in the foreground; Ctrl-C stops it
# make test   the tests, on a real PostgreSQL and a real browser
# make check  format, lint, import arrows, strict types, templates, missing migrations
# make schema docs/openapi.json, for readers and generators of clients
# make chaos  ten minutes of everything that can break, then the checks at work on seeded bugs
# make bench  Tenure beside its peers and the raw SQL ceiling, on this machine
# make clean  remove what the above made, except your data in var/
#
# Each works alone on a machine with Python 3.11 or newer and make. Nothing else needs to be installed.

.DEFAULT_GOAL := run
.PHONY: run test check schema chaos bench clean browser spin brokers
.DELETE_ON_ERROR:

VENV := .venv
PY := $(VENV)/bin/python
ARGS ?=
PYTEST_ARGS ?= -n auto --maxprocesses 4 --dist loadgroup
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$$p"; break; }; done)

# uv takes half the time; where it can't be had or can't install, pip does the same from the same pins.
define install
	@echo "Installing $(1) into $(VENV) ..."
	@$(PY) -m pip --disable-pip-version-check install --quiet uv 2>/dev/null || true
	@$(PY) -m uv pip install --quiet --python $(PY) --requirement $(1) 2>/dev/null \
		|| $(PY) -m pip --disable-pip-version-check install --quiet --requirement $(1)
	@touch $@
endef

run: $(VENV)/.server
	@exec $(PY) manage.py up $(ARGS)

test: $(VENV)/.dev browser spin brokers
	$(PY) -m pytest $(PYTEST_ARGS) $(ARGS)

check: $(VENV)/.dev
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/lint-imports
	$(VENV)/bin/mypy
	git ls-files -z 'templates/*.html' | xargs -0 -r $(VENV)/bin/djade --target-version 5.2 --check
	$(PY) manage.py check --fail-level WARNING
	$(PY) manage.py check_templates
	$(PY) manage.py export_schema --check docs/openapi.json
	@# No database is needed: only the history that it would compare with is left out.
	TENURE_DB_POOL_TIMEOUT_SECONDS=1 $(PY) -W ignore::RuntimeWarning manage.py makemigrations --check --dry-run

schema: $(VENV)/.server
	$(PY) manage.py export_schema docs/openapi.json

# ARGS="--seconds 3600 --seed 7", or ARGS="--bug NAME" for one seeded bug alone (docs/chaos.md).
chaos: $(VENV)/.dev
	$(PY) -m tests.chaos $(ARGS)
	$(if $(ARGS),,$(PY) -m tests.chaos --bugs --seconds 45)

# The figures and the chart of docs/performance.md are written anew; `git diff docs/measured` shows what has changed.
# The peers' clients stay out of our own environment. Redis, RabbitMQ and etcd are measured where they are installed.
PEERS := .venv-peers
bench: $(VENV)/.dev $(PEERS)/.installed
	$(PY) -m bench --peers $(PEERS)/bin/python --json docs/measured/bench.json --chart docs/measured/bench.svg $(ARGS)

$(PEERS)/.installed: bench/peers/requirements.txt | $(PY)
	@$(PYTHON) -m venv $(PEERS)
	@echo "Installing $< into $(PEERS) ..."
	@$(PY) -m uv pip install --quiet --python $(PEERS)/bin/python --requirement $< 2>/dev/null \
		|| $(PEERS)/bin/python -m pip --disable-pip-version-check install --quiet --requirement $<
	@touch $@

clean:
	rm -rf $(VENV) $(PEERS) staticfiles build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -not -path './var/*' -prune -exec rm -rf {} +

$(PY):
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed, and none was found on the PATH. Install it, or say where: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "$(PYTHON) has no venv module. On Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.server: requirements/server.txt | $(PY)
	$(call install,requirements/server.txt)

$(VENV)/.dev: requirements/dev.txt | $(PY)
	$(call install,requirements/dev.txt)

browser:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || { \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			echo "Installing chromium for the browser tests ..."; \
			apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null; \
		else \
			echo "The browser tests need chromium on the PATH. Install it (Debian: sudo apt-get install chromium), or run the others: make test ARGS='-m \"not browser\"'" >&2; exit 1; \
		fi; }

# The model checker that searches the protocol's twin (docs/protocol.md), and the compiler that it needs.
spin:
	@{ command -v spin && command -v gcc; } >/dev/null || { \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			echo "Installing spin for the model's twin ..."; \
			apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends spin gcc libc6-dev >/dev/null; \
		else \
			echo "The protocol's twin needs spin and gcc on the PATH. Install them (Debian: sudo apt-get install spin gcc), or run the others: make test ARGS='--ignore tests/protocol/test_twin.py'" >&2; exit 1; \
		fi; }

# Celery's brokers, for the tests that spread an installation over several hosts (tests/hosts). These lay out network
# namespaces, which needs root; without it they are left out, and so are the brokers. Nobody's service is used: the
# tests start brokers of their own.
brokers:
	@[ "$$(id -u)" != 0 ] || { command -v redis-server && command -v ip && command -v rabbitmq-server; } >/dev/null || { \
		if command -v apt-get >/dev/null; then \
			echo "Installing Redis and RabbitMQ for the tests on several hosts ..."; \
			apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends redis-server rabbitmq-server iproute2 >/dev/null; \
		else \
			echo "The tests on several hosts need redis-server, rabbitmq-server and ip on the PATH. Install them, or run the others: make test ARGS='--ignore tests/hosts'" >&2; exit 1; \
		fi; }
