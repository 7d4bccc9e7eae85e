# `make` lists the targets. Everything runs in .venv, which the targets build when they need it.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PREFIX ?=
PYTEST_ARGS ?=
QUICK_SECONDS ?= 500
CLIENTS ?=
RUNS ?= 200
MATRIX ?=
MODES ?= on killed stopped
DAEMON_TESTS ?= tests/cli tests/concurrency tests/guard/enforcement tests/hooks tests/law tests/states
space := $() $()
SHELL_FILES := install.sh .ci/run .ci/matrix $(filter-out %.md,$(wildcard hooks/*))

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help test test-all test-platforms test-daemon test-matrix test-clients test-ray check format format-check lint types layers shellcheck bench soak quick-list guard-coverage plugins install uninstall clean

help: ## list the targets
	@echo 'usage: make TARGET [PYTHON=python3.12] [PYTEST_ARGS="-k restore"] [PREFIX=DIR]'
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-14s%s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

test: $(VENV)/.compiled ## a sample of the tests, in minutes (builds what it needs)
	AGENTOS_TEST_QUICK=1 $(BIN)/pytest -n auto --dist worksteal $(PYTEST_ARGS)

test-all: $(VENV)/.compiled ## all tests, with samples of the largest tables [AGENTOS_TEST_SEED=N for others]
	$(BIN)/pytest -n auto --dist worksteal $(PYTEST_ARGS)

test-platforms: $(VENV)/.compiled ## other file systems, other shells and programs, and what only Linux has left out
	AGENTOS_TEST_EXHAUSTIVE=1 $(BIN)/pytest -n auto --dist worksteal tests/filesystems tests/project/test_portable_scripts.py tests/project/test_without_linux.py $(PYTEST_ARGS)
	for kind in apfs exfat share; do AGENTOS_TEST_FILE_SYSTEM=$$kind AGENTOS_TEST_QUICK=1 AGENTOS_TEST_QUICK_CASES=2 $(BIN)/pytest -n auto --dist worksteal tests/states tests/law --ignore=tests/states/test_deep.py $(PYTEST_ARGS) || exit; done

# What a command does may not depend on the daemon: the same tests, with one that works, is killed, and does not answer.
test-daemon: $(VENV)/.compiled ## the command line, states and laws with the watch daemon on, killed and stopped [MODES="on"]
	for mode in $(MODES); do AGENTOS_TEST_DAEMON=$$mode AGENTOS_TEST_QUICK_CASES=1 \
	  $(BIN)/pytest -n auto --dist worksteal $(DAEMON_TESTS) $(PYTEST_ARGS) || exit; done

test-matrix: ## other versions of git and Python, in Debian systems that debootstrap makes (as root) [MATRIX=FOLDER]
	.ci/matrix all $(MATRIX)

test-clients: $(VENV)/.test ## real agent clients, from npm, against a model server on loopback [CLIENTS="claude-code opencode"]
	$(BIN)/python -m tests.clients.install $(VENV)/clients $(CLIENTS)
	$(BIN)/pytest -m clients tests/clients $(if $(CLIENTS),-k '$(subst $(space), or ,$(strip $(CLIENTS)))') $(PYTEST_ARGS)

test-ray: $(VENV)/.ray $(VENV)/.compiled ## fleets on Ray clusters of several nodes on this machine; nodes are killed [RUNS=200]
	AGENTOS_TEST_FLEET_RUNS=$(RUNS) $(BIN)/pytest tests/fleet/engines/test_ray.py tests/fleet/engines/test_ray_lost.py tests/fleet/test_engines_agree.py \
	  tests/fleet/test_ray_fleet.py $(PYTEST_ARGS)

plugins: $(VENV)/.dev ## the plugin packages of the clients, from plugins/source and the hooks of guard integrate
	$(BIN)/python plugins/build.py

check: format-check lint types layers shellcheck test-all ## everything: format, lint, types, layers, shell, all tests

format: $(VENV)/.dev ## format the code, mend what the linter can
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

format-check: $(VENV)/.dev ## is everything formatted?
	$(BIN)/ruff format --check .

lint: $(VENV)/.dev ## ruff
	$(BIN)/ruff check .

types: $(VENV)/.dev ## mypy, strict
	$(BIN)/mypy

layers: $(VENV)/.dev ## import-linter: imports point down, heavy libraries have one home
	$(BIN)/lint-imports

shellcheck: ## shellcheck, where it is installed
	@if command -v shellcheck >/dev/null; then echo shellcheck $(SHELL_FILES); shellcheck -x -P SCRIPTDIR $(SHELL_FILES); \
	else echo 'shellcheck is not installed (apt install shellcheck): shell scripts not checked'; fi

bench: $(VENV)/.dev ## measure against git; writes bench/RESULTS.md
	$(BIN)/python -m bench

soak: $(VENV)/.test ## every test, every case of every table, and 10,000 cases of each law
	AGENTOS_TEST_EXHAUSTIVE=1 HYPOTHESIS_PROFILE=soak $(BIN)/pytest -n auto --dist worksteal -m law $(PYTEST_ARGS)
	AGENTOS_TEST_EXHAUSTIVE=1 $(BIN)/pytest -n auto --dist worksteal -m 'not law and not clients' $(PYTEST_ARGS)

quick-list: $(VENV)/.dev ## measure all tests, and choose those of `make test`; writes tests/quick.txt
	@rm -rf $(VENV)/quick-list && mkdir $(VENV)/quick-list
	-AGENTOS_TEST_MEASURE=$(CURDIR)/$(VENV)/quick-list $(BIN)/python -m pytest -p tests.support.measure -n auto --dist worksteal $(PYTEST_ARGS)
	$(BIN)/python -m tests.support.measure $(VENV)/quick-list $(QUICK_SECONDS)

guard-coverage: $(VENV)/.test ## try every destructive command against every layer; writes docs/guard-coverage.md
	@rm -rf $(VENV)/guard-coverage && mkdir $(VENV)/guard-coverage
	AGENTOS_TEST_EXHAUSTIVE=1 AGENTOS_TEST_WRITE=$(CURDIR)/$(VENV)/guard-coverage $(BIN)/pytest -n auto tests/guard/test_coverage.py $(PYTEST_ARGS)
	$(BIN)/python -m tests.support.guard.layer_matrix $(VENV)/guard-coverage

install: ## install for this user, or below PREFIX=DIR
	./install.sh $(if $(PREFIX),--prefix '$(PREFIX)')

uninstall: ## remove what `make install` put there
	./install.sh --uninstall $(if $(PREFIX),--prefix '$(PREFIX)')

clean: ## remove .venv, caches and builds
	rm -rf $(VENV) build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +

# The environment. `--group` needs pip 25.1. A half-built one never counts: the stamps are written last.
$(BIN)/pip:
	@command -v git >/dev/null || { echo 'git is missing: sudo apt install git' >&2; exit 1; }
	@command -v $(PYTHON) >/dev/null || { echo '$(PYTHON) is missing: sudo apt install python3 python3-venv' >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo '$(PYTHON) is older than 3.11: install a newer one and say `make test PYTHON=python3.12`' >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo 'Python cannot make a virtual environment: sudo apt install python3-venv' >&2; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)

$(VENV)/.pip: $(BIN)/pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'pip>=25.1'
	@touch $@

# Processes that tests start would compile the modules each time.
.PHONY: $(VENV)/.compiled
$(VENV)/.compiled: $(VENV)/.test
	@$(BIN)/python -m compileall -q git_agentos tests

$(VENV)/.%: pyproject.toml $(VENV)/.pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable . --group $*
	@touch $@
