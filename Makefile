# Everything a developer types. Each target sets up what it needs, and works again without network once it is there.
.DEFAULT_GOAL := help
.PHONY: help setup demo docs test check check-sparks bench charts chaos soak takeovers fuzz planted-bugs lock release clean

VENV   := .venv
PYTHON := $(VENV)/bin/python
ARGS   ?=

help:  ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/.ready  ## a virtual environment in .venv, and a JDK where there is none

$(VENV)/.ready: requirements/development.txt pyproject.toml tools/setup
	tools/setup $(VENV)
	@touch $@

demo: setup  ## lose a machine under a streaming query, and lose nothing
	$(PYTHON) -m spark_integration.demo $(ARGS)

docs: setup  ## the documents as a small site: build/site/index.html
	$(PYTHON) tools/docs_site.py

test: setup  ## the quick tests, some minutes; ARGS="-m spark" those with Spark, ARGS="-m ''" all
	$(PYTHON) -m pytest -m "not slow and not spark and not chaos and not soak" $(ARGS)

check: setup  ## style, types, formats, all tests: what CI runs
	.ci/run

check-sparks: setup  ## a smoke test on every other line of Spark that the README names (1.8 GB, some minutes)
	tools/spark_lines $(VENV) $(patsubst requirements/spark-%.txt,%,$(sort $(wildcard requirements/spark-*.txt)))
	$(PYTHON) -m pytest tests/spark_integration/test_other_spark_lines.py $(ARGS)

bench: setup  ## measure against Redis, etcd, NATS, PostgreSQL, nginx (ARGS=--quick)
	$(PYTHON) -m tests.benchmarks $(ARGS)

charts: setup  ## docs/performance.md, its charts, and docs/scale.md, from what bench measured
	$(PYTHON) -m tests.benchmarks.charts $(ARGS)
	$(PYTHON) -m tests.benchmarks.scale $(filter --check,$(ARGS))

chaos: setup  ## kill every part of running queries, then from producers to sinks (ARGS="--minutes 15 --seed 1")
	$(PYTHON) -m tests.chaos $(ARGS)
	$(PYTHON) -m tests.chaos.connectors $(ARGS)

soak: setup  ## simulate for as long as asked, then what CI has no time for (ARGS="--minutes 60 --write")
	$(PYTHON) -m tests.simulation $(ARGS)
	$(PYTHON) -m tests.chaos.connectors --minutes 180 --report docs/effectively-once.md
	$(PYTHON) -m pytest -m soak

takeovers: setup  ## kill, take over and replace members under load, real processes (ARGS="--minutes 60")
	$(PYTHON) -m tests.chaos.takeovers $(ARGS)

fuzz: setup  ## talk to a real process as nobody should (ARGS="sos --minutes 30" or "files --minutes 30")
	$(PYTHON) -m tests.fuzz.conversations $(ARGS)

planted-bugs: setup  ## plant every known mistake, write what caught it into docs/testing.md
	$(PYTHON) -m tests.simulation.planted_bugs --write $(ARGS)

lock: setup  ## pin what setup installs (ARGS=--upgrade)
	$(PYTHON) -m pip install --quiet "pip-tools>=7.4"
	$(PYTHON) tools/lock.py $(ARGS)

release: setup  ## wheel and source archive in dist/, checked, installed into an empty environment, tried
	$(PYTHON) tools/release.py $(ARGS)

clean:  ## remove what was built
	rm -rf build dist $(VENV)
