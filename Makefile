# Everything a contributor types. demo, test, check, test-compat and bench do all their own set-up in .venv.
.DEFAULT_GOAL := help
.PHONY: help demo quick test house check docs changelog test-compat long bench bench-peers sim mutants lock clean fresh
MAKEFLAGS += --no-print-directory

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
UNITS := tests/assign tests/columns tests/coord tests/drive tests/member tests/node tests/security tests/store tests/streams tests/wire $(wildcard tests/test_*.py)
HOUSE := tests/house tests/typing
JAVA = java_home="$$($(PY) tools/java_home.py)" && export JAVA_HOME="$$java_home" &&
PIP_COMPILE = CUSTOM_COMPILE_COMMAND="make lock" $(PY) -m piptools compile --quiet --allow-unsafe --strip-extras --generate-hashes \
	--no-emit-find-links --no-emit-index-url --no-emit-options --no-emit-trusted-host $(ARGS)
# pip-compile writes down the clone itself, which has no hash, because an extra of it names others.
NO_SELF = sed -i.old -e '/^\# WARNING: pip install/d' -e '/^\# Consider using a hashable URL/d' -e '/^apportion @ /,/^ *\# via /d'

help: ## say what there is
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' Makefile | expand -t 20

$(DEMO): requirements-demo.lock
$(TEST): requirements-test.lock
$(DEMO) $(TEST) $(READY): requirements.lock pyproject.toml tools/set_up.sh
	@bash tools/set_up.sh $(@:.venv/.%=%)

demo: $(DEMO) ## real flights through Spark applications that share one consumer group (BROKER=kafka: on a real Apache Kafka; CLUSTER=1: on a Spark cluster)
	@$(JAVA) $(PY) -m demo --broker $(BROKER) $(if $(filter-out 0,$(CLUSTER)),--cluster) $(ARGS)

quick: $(TEST) ## the rooms that start no process, with a tenth of the examples of each property: a contributor's inner loop
	@$(PY) -m pytest --numprocesses=2 --hypothesis-profile=quick $(or $(TESTS),$(UNITS) --ignore=tests/wire/test_oracles.py) $(ARGS)

test: $(TEST) ## every test but house, and those against foreign clients and brokers (WORKERS=0: in one process)
	@$(JAVA) $(PY) -m pytest --numprocesses=$(WORKERS) $(or $(TESTS),tests) --ignore=tests/compat --ignore=tests/kafka \
		$(HOUSE:%=--ignore=%) $(ARGS)

house: $(READY) ## tests of what is beside the package, by mypy, build, mkdocs and other tools: documents, locks, wheel, types
	@$(JAVA) $(PY) -m pytest --numprocesses=$(WORKERS) $(or $(TESTS),$(HOUSE)) $(ARGS)

check: $(READY) ## lint, format, types, and the laws of the house
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(PY) -m pytest tests/test_tidy.py

docs: $(READY) ## the site, into docs-out; every warning is a failure
	@$(PY) -m tools.pages
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict

test-compat: $(TEST) ## foreign clients against our broker, and us against a real Apache Kafka
	@$(JAVA) $(PY) -m pytest --numprocesses=$(WORKERS) $(or $(TESTS),tests/compat tests/kafka) $(ARGS)

changelog: $(READY) ## print the draft of the next release's changelog
	@$(PY) -m towncrier build --draft --version "$(or $(VERSION),the next release)"

long: $(READY) ## searches that take hours, from a fresh seed; says how to repeat a failure (ARGS="--sample", "--only kills")
	@$(JAVA) $(PY) tools/long.py $(ARGS)

bench: $(TEST) ## measure, print a table, write bench-out/results.json (ARGS="--only heartbeat")
	@$(JAVA) $(PY) bench/run.py $(ARGS)

bench-peers: $(READY) ## measure beside Apache Kafka, kfake and Spark's Kafka source, write bench-out/peers.json; leave the machine alone (ARGS="--only commits", "--help")
	@$(JAVA) $(PY) -m bench.peers $(ARGS)

mutants: $(READY) ## small bugs put into coord/, member/, client/ and spark/: do the tests and the simulator see them? (ARGS="--sample 20")
	@$(JAVA) $(PY) tools/mutants.py $(ARGS)

sim: $(TEST) ## search the seeds that catch each planted bug, keep them in tests/sim/found.txt (ARGS="--only NAME")
	@$(PY) tools/hunt.py $(ARGS)

lock: $(READY) ## pin every package anew (ARGS=--upgrade for the newest)
	@$(PIP_COMPILE) --all-extras --output-file=requirements.lock pyproject.toml && $(NO_SELF) requirements.lock
	@for purpose in demo test; do lock=requirements-$$purpose.lock; $(PIP_COMPILE) --constraint=requirements.lock --extra=$$purpose \
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
