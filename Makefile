# Every target sets up what it needs: a virtual environment in .venv with the locked dependencies.
# A changed pyproject.toml or requirements.lock refreshes it.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
LOCK := $(BIN)/uv pip compile --quiet --upgrade --universal --fork-strategy fewest --python-version 3.11 \
	--generate-hashes --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock"
BUILD := $(BIN)/uv build --quiet --no-build-isolation --python $(BIN)/python --out-dir dist
TRIAL := dist/trial
FLINK := .flink

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow test-page components check bench flink docs lock dist clean

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
	@$(BIN)/python -m elastream.spark.sessions.class_training
	@$(BIN)/pytest -m "not slow and not components" --numprocesses 3 --dist loadgroup

test-slow: $(READY) ## run the long trials too
	@HYPOTHESIS_PROFILE=search $(BIN)/pytest -m "not components"

test-page: $(READY) components ## try the page in Chromium and the metrics under Prometheus
	@$(BIN)/pytest -m components tests/page_live
	@if command -v node > /dev/null; then node --test tests/page/front/*.test.mjs > /dev/null; fi

components: ## install what test-page needs besides, from Debian's packages, where it is missing
	@{ command -v chromium && command -v chromedriver && command -v prometheus && command -v promtool; } > /dev/null \
		|| { apt-get -qq update && apt-get -qq install --yes --no-install-recommends \
			chromium chromium-driver prometheus > /dev/null; }

check: $(READY) ## the quick loop: format, lint, types, layers, fast tests
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@HYPOTHESIS_PROFILE=quick $(BIN)/pytest -q -x -m "not slow and not spark and not components"

bench: $(READY) ## run the benchmarks, print their tables
	@$(BIN)/python -m elastream_lab.benchmarks

flink: $(FLINK)/.ready ## get Flink, which elastream bench peers compares with

$(FLINK)/.ready: lab/flink-requirements.txt
	@test -x $(FLINK)/bin/python || $(PYTHON) -m venv $(FLINK)
	@echo "installing Flink into $(FLINK) (once)"
	@$(FLINK)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes \
		--no-deps --only-binary :all: -r lab/flink-requirements.txt
	@touch $@

docs: $(READY) ## build the site into build/site; a broken link fails
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

lock: $(READY) ## pin every dependency of both packages anew, with hashes
	@$(LOCK) --extra demo --extra dev --extra docs --no-emit-package elastream \
		--output-file requirements.lock pyproject.toml lab/pyproject.toml
	@echo setuptools | $(LOCK) --output-file requirements-build.lock -

dist: $(READY) ## build both packages for a release, check them, try them in a fresh environment
	@rm -rf dist build lab/build
	@$(BUILD) .
	@$(BUILD) lab
	@ELASTREAM_DIST=dist $(BIN)/pytest -q tests/distribution
	@$(PYTHON) -m venv $(TRIAL)
	@$(TRIAL)/bin/python -m pip install --quiet --disable-pip-version-check dist/*.whl
	@$(TRIAL)/bin/elastream --version
	@echo '{"work": [1, 1], "state": [1, 1], "current": [[0, 2]], "nodes": 2, "tau": 0}' \
		| $(TRIAL)/bin/elastream plan single-step -
	@$(TRIAL)/bin/elastream study --help > dist/study.txt
	@rm -rf $(TRIAL) dist/study.txt
	@ls dist

clean: ## remove the environment and everything made
	@rm -rf $(VENV) $(FLINK) build lab/build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
