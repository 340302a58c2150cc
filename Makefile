# Every target sets up what it needs: a virtual environment in .venv with the locked dependencies.
# A changed pyproject.toml or requirements.lock refreshes it.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
LOCK := $(BIN)/uv pip compile --quiet --upgrade --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --custom-compile-command "make lock"

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow check format bench docs lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(READY): pyproject.toml lab/pyproject.toml requirements-build.lock requirements.lock
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing the locked dependencies into $(VENV) (once)"
	@$(INSTALL) --require-hashes -r requirements-build.lock
	@$(INSTALL) --require-hashes --no-build-isolation -r requirements.lock
	@$(INSTALL) --no-deps --no-build-isolation -e . -e lab
	@touch $@

demo: $(READY) ## run the main job: a stream that scales out and in by itself
	@$(BIN)/elastream demo

test: $(READY) ## run the lint, the types, the layers and all tests but the long trials
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/pytest -m "not slow" --numprocesses 2 --dist loadgroup

test-slow: $(READY) ## run the long trials too
	@HYPOTHESIS_PROFILE=search $(BIN)/pytest

check: $(READY) ## the quick loop: format, lint, types, layers, fast tests
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@HYPOTHESIS_PROFILE=quick $(BIN)/pytest -q -x -m "not slow and not spark"

bench: $(READY) ## run the benchmarks, print their tables
	@$(BIN)/python -m elastream_lab.benchmarks

docs: $(READY) ## build the site into build/site; a broken link fails
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

lock: $(READY) ## pin every dependency anew, with hashes
	@$(LOCK) --extra spark --extra studies --extra dev --output-file requirements.lock pyproject.toml
	@echo setuptools | $(LOCK) --output-file requirements-build.lock -

clean: ## remove the environment and everything made
	@rm -rf $(VENV) build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
