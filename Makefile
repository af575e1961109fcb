# Every verb makes what it needs; a second run finds it made.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
TORCH := $(shell grep '^torch==' constraints.txt)

.PHONY: demo test test-slow check bench clean
.DELETE_ON_ERROR:

demo: .venv/laconic
	$(BIN)/laconic demo

test: .venv/dev
	$(BIN)/python -m pytest -n auto

test-slow: .venv/dev
	$(BIN)/python -m pytest -n auto -m slow

check: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest tests/test_layers.py

bench: .venv/dev
	$(BIN)/python -m benchmarks

# torch first and by its pin, then the rest held to it: any other order fetches gigabytes of CUDA.
.venv/laconic: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(PIP) $(TORCH)
	$(PIP) --editable .
	@touch $@

.venv/dev: .venv/laconic
	$(PIP) --editable '.[dev]'
	@touch $@

clean:
	rm -rf .venv dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
