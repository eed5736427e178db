# Every target makes the virtual environment that it needs, from Python 3.11 or newer and pip alone.
# SHARED holds the cases, the parity suite and the benchmarks; they are handed beside this checkout, not kept in it.
SHELL := /bin/bash
SHARED ?= ../shared
PYTHON ?= $(shell for p in python3 python3.11 python3.12 python3.13; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
PY := $(VENV)/bin/python
WORKERS ?= 2
TORCH ?= torch==2.13.0
THREADS ?= 2
BENCH ?=

.PHONY: demo test check cases parity bench accuracy clean

demo: $(VENV)/.demo
	$(PY) examples/digits.py

test: $(VENV)/.dev
	$(PY) -m pytest -n $(WORKERS) $(TESTS)

check: $(VENV)/.dev
	$(PY) -m ruff check rushlight tests examples tools
	$(PY) -m mypy

cases: $(VENV)/.demo
	$(PY) $(SHARED)/cases/run.py --candidate rushlight --suite eager

# PyTorch is the oracle here and nowhere else; it gets an environment of its own.
parity: .venv-torch/.done
	cd $(SHARED)/parity && PYTHONDONTWRITEBYTECODE=1 $(CURDIR)/.venv-torch/bin/python parity.py --candidate rushlight --grad $(PARITY)

bench: $(VENV)/.demo .venv-torch/.done .venv-jax/.done .venv-tinygrad/.done
	mkdir -p out
	PYTHONDONTWRITEBYTECODE=1 $(PY) $(SHARED)/bench/bench.py --threads $(THREADS) --json out/bench.json \
		--python rushlight=$(CURDIR)/$(PY) --python torch=$(CURDIR)/.venv-torch/bin/python \
		--python jax=$(CURDIR)/.venv-jax/bin/python --python tinygrad=$(CURDIR)/.venv-tinygrad/bin/python $(BENCH)
	$(PY) $(SHARED)/bench/report.py out/bench.json > out/bench.md

# All 2^32 float32 values of each mathematical function: about half an hour on one core. It goes on where it was stopped.
accuracy: $(VENV)/.dev
	mkdir -p out
	nice $(PY) -m rushlight.kernels.accuracy --full --state out/accuracy.json --write docs/accuracy.md

$(VENV)/.made:
	@test -n "$(PYTHON)" || { echo "Rushlight needs Python 3.11 or newer on the PATH (or: make PYTHON=...)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/.demo: pyproject.toml | $(VENV)/.made
	$(PY) -m pip install --quiet --disable-pip-version-check -e '.[demo]'
	$(PY) -m compileall -q rushlight  # where Python may not write bytecode, each import would compile all files again
	touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/.made
	$(PY) -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	$(PY) -m compileall -q rushlight
	touch $@ $(VENV)/.demo

.venv-torch/.done: pyproject.toml
	$(PYTHON) -m venv .venv-torch
	.venv-torch/bin/pip install --quiet --disable-pip-version-check $(TORCH) expecttest numpy
	.venv-torch/bin/pip install --quiet --disable-pip-version-check -e .
	touch $@

.venv-jax/.done:
	$(PYTHON) -m venv .venv-jax
	.venv-jax/bin/pip install --quiet --disable-pip-version-check jax jaxlib optax numpy
	touch $@

.venv-tinygrad/.done:
	$(PYTHON) -m venv .venv-tinygrad
	.venv-tinygrad/bin/pip install --quiet --disable-pip-version-check tinygrad numpy
	touch $@

clean:
	rm -rf out build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
