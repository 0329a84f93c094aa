# Everything a contributor types. Each target does all its own set-up in .venv.
.DEFAULT_GOAL := help
.PHONY: help set-up demo quick test lanes all check docs changelog durations pythons long bench bench-peers sim mutants lock clean fresh
MAKEFLAGS += --no-print-directory

# A test run starts hundreds of Python processes; each would compile the same modules.
unexport PYTHONDONTWRITEBYTECODE

BROKER ?= embedded
CLUSTER ?=
ARGS ?=
TESTS ?=
WORKERS ?= 3
PY := .venv/bin/python
# What is set up: the packages of the demo, of the tests as well, or all of them (tools/set_up.sh).
DEMO := .venv/.demo
TEST := .venv/.test
READY := .venv/.all
LANES ?=
ifeq ($(MAKECMDGOALS)$(strip $(LANES)),lanes)
$(error name the lanes, such as LANES=kafka,streams; tests/lanes.py has them)
endif
PROFILE ?= test
PYTEST = $(JAVA) $(PY) -m pytest --numprocesses=$(WORKERS) --hypothesis-profile=$(PROFILE)
JAVA = java_home="$$($(PY) tools/java_home.py)" && export JAVA_HOME="$$java_home" &&
BENCH_PYTHON ?=
BENCH = python="$$(BENCH_PYTHON='$(BENCH_PYTHON)' $(PY) -m tools.bench_python)" &&
PIP_COMPILE = CUSTOM_COMPILE_COMMAND="make lock" $(PY) -m piptools compile --quiet --allow-unsafe --strip-extras --generate-hashes \
	--no-emit-find-links --no-emit-index-url --no-emit-options --no-emit-trusted-host $(ARGS)
# pip-compile writes down the clone itself, which has no hash, because an extra of it names others.
NO_SELF = sed -i.old -e '/^\# WARNING: pip install/d' -e '/^\# Consider using a hashable URL/d' -e '/^apportion @ /,/^ *\# via /d'

help: ## say what there is
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' Makefile | expand -t 20

set-up: $(READY)

$(DEMO): requirements-demo.lock
$(TEST): requirements-test.lock
$(DEMO) $(TEST) $(READY): requirements.lock pyproject.toml tools/set_up.sh
	@bash tools/set_up.sh $(@:.venv/.%=%)

demo: $(DEMO) ## real flights through Spark applications that share one consumer group (BROKER=kafka: on a real Apache Kafka; CLUSTER=1: on a Spark cluster)
	@$(JAVA) $(PY) -m demo --broker $(BROKER) $(if $(filter-out 0,$(CLUSTER)),--cluster) $(ARGS)

quick: $(TEST) ## the rooms that start no process, with a tenth of the examples of each property: a contributor's inner loop
	@$(PY) -m pytest --numprocesses=2 --hypothesis-profile=quick $(or $(TESTS),--lane=quick) $(ARGS)

test: $(TEST) ## every test but the slow lanes (TESTS=tests/kafka/test_versions.py: these, whatever their lane; WORKERS=0: in one process)
	@$(PYTEST) $(or $(TESTS),--lane=test) $(ARGS)

lanes: $(READY) ## slow lanes, by name (LANES=kafka,streams): foreign clients, a real Kafka, other Sparks, long stories; tests/lanes.py
	@$(PYTEST) --lane='$(LANES)' $(ARGS)

all: $(READY) ## everything: check, docs, every lane with all examples, every search; notes the commit in tests/whole_run.toml
	@$(PY) -m tools.ci --all $(ARGS)

check: $(READY) ## lint, format, types, and the laws of the house
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	@$(JAVA) $(PY) -m pytest --numprocesses=2 --lane=check
	$(PY) -m tools.durations --check

docs: $(READY) ## the site, into docs-out; every warning is a failure
	@$(PY) -m tools.pages
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict

durations: $(READY) ## the longest tests of the last runs, and sums by directory (ARGS="--check": against tests/durations.toml)
	@$(PY) -m tools.durations $(ARGS)

changelog: $(READY) ## print the draft of the next release's changelog
	@$(PY) -m towncrier build --draft --version "$(or $(VERSION),the next release)"

pythons: $(READY) ## tests of the rooms without Spark, and members on an embedded broker, on every Python that is found
	@$(MAKE) lanes LANES=pythons

long: $(READY) ## searches that take hours, from a fresh seed; says how to repeat a failure (ARGS="--sample", "--only kills")
	@$(JAVA) $(PY) tools/long.py $(ARGS)

bench: $(TEST) ## measure, print a table, write bench-out/results.json (ARGS="--only heartbeat"; BENCH_PYTHON=/path/to/python3: on this one)
	@$(JAVA) $(BENCH) "$$python" bench/run.py $(ARGS)

bench-peers: $(READY) ## measure beside Apache Kafka, kfake and Spark's Kafka source, write bench-out/peers.json; leave the machine alone (ARGS="--only commits", "--help")
	@$(JAVA) $(BENCH) "$$python" -m bench.peers $(ARGS)

mutants: $(READY) ## small bugs put into eight packages: do the tests and the simulator see them? (ARGS="--sample 20")
	@$(JAVA) $(PY) tools/mutants.py $(ARGS)

sim: $(TEST) ## search the seeds that catch each planted bug, keep them in tests/sim/found.txt (ARGS="--only NAME")
	@$(PY) tools/hunt.py $(ARGS)

lock: $(READY) ## pin every package anew (ARGS=--upgrade for the newest)
	@$(PIP_COMPILE) --all-extras --output-file=requirements.lock pyproject.toml && $(NO_SELF) requirements.lock
	@for purpose in demo pythons test; do lock=requirements-$$purpose.lock; $(PIP_COMPILE) --constraint=requirements.lock --extra=$$purpose \
		--output-file=$$lock pyproject.toml && $(NO_SELF) $$lock || exit 1; done
	@rm requirements*.lock.old
	@$(PIP_COMPILE) --output-file=requirements-java.lock tools/java.in
	@$(PIP_COMPILE) --output-file=requirements-node.lock tools/node.in
	@for release in tests/compat/spark/*.in; do $(PIP_COMPILE) --output-file=$${release%.in}.lock $$release || exit 1; done

clean: ## remove what builds and tests leave behind
	rm -rf build dist docs-out bench-out demo-out mutants-out spark-warehouse metastore_db derby.log artifacts tests/compat/target \
		tests/compat/*/target tests/kafka/target tests/kafka/*/target bench/peers/target tests/compat/clients/node_modules \
		.mypy_cache .ruff_cache .pytest_cache .hypothesis
	find src tests bench tools -name __pycache__ -prune -exec rm -rf {} +

fresh: clean ## the same, and .venv: the next command sets up from nothing
	rm -rf .venv
