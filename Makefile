# Every command of the project. Needs make and Python 3.11 or later; the rest is made under .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.made-from-lock
# Two at a time: the tests start processes of their own.
WORKERS ?= 2
N ?= 10
KEEP ?=

.PHONY: demo test test-all bench bench-full kill lint format env lock clean

# A one-machine site with three agents runs a pipeline and shows what came of it. KEEP=1 leaves it running.
demo: $(STAMP)
	@KEEP=$(KEEP) $(BIN)/python -m fairlead.programs.demo

# Without root, services or anything else beside the environment; under two minutes on two cores.
test: $(STAMP)
	$(BIN)/python -m pytest -n $(WORKERS) -m "not servers and not slow"

# Everything, with a real etcd and the slow ones.
test-all: $(STAMP)
	$(BIN)/python -m pytest -n $(WORKERS)

bench: $(STAMP)
	$(BIN)/fairlead bench

bench-full: $(STAMP)
	$(BIN)/fairlead bench --full

# N times: real processes, killed and stopped at random moments; nothing lost, doubled or left behind.
kill: $(STAMP)
	$(BIN)/python -m tests.kill $(N)

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy src
	$(BIN)/lint-imports
	@if [ -e tools/gen_proto.py ]; then $(BIN)/python tools/gen_proto.py --check; fi

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

env: $(STAMP)

# Made anew when the lock or the project file changes. Nothing is installed without a hash from the lock.
$(STAMP): requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "error: Python 3.11 or later is needed, $(PYTHON) is older" >&2; \
		  echo "  fix: make $(or $(MAKECMDGOALS),env) PYTHON=python3.12" >&2; exit 2; }
	@[ -x $(BIN)/python ] || { echo "making $(VENV) (about a minute)"; $(PYTHON) -m venv $(VENV); }
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

# The newest versions that pyproject.toml allows, with the hashes of all their files. The tool that finds
# them lives in an environment of its own.
LOCK := .venv-lock/bin/pip-compile -q --upgrade --generate-hashes --strip-extras --allow-unsafe --no-header \
	--no-config --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --no-emit-options
lock:
	[ -x .venv-lock/bin/pip-compile ] || { $(PYTHON) -m venv .venv-lock && .venv-lock/bin/pip install -q pip-tools; }
	$(LOCK) -o requirements/run.txt pyproject.toml
	$(LOCK) --extra dev -c requirements/run.txt -o requirements/dev.txt pyproject.toml

clean:
	rm -rf $(VENV) .venv-lock .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache bench/results
