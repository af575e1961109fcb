# Every verb makes what it needs; a second run finds it made.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
TORCH := $(shell grep '^torch==' constraints.txt)
AS_ROOT := $(if $(filter 0,$(shell id -u)),,sudo -n)
MODEL ?= build/debian-laptop

.PHONY: demo test test-models test-guides test-slow test-ray test-types test-oldest test-annif test-browser check tutorials docs docs-serve bench chaos campaign screenshot chromium audit sbom requirements clean
.DELETE_ON_ERROR:

demo: .venv/laconic
	$(BIN)/laconic demo

# What trains models, compiles the kernels of packed ones, runs GPU kernels in Triton's interpreter or starts many processes.
MODELS := $(addprefix tests/,bulk combining engine linear methods predict shortlisters) $(wildcard $(patsubst %,tests/test_%.py,\
benching class_weight cli cli_pack* cli_ranks cli_streams cli_words deadline ensembles estimator estimator_* json_page maintaining old_models onnx pads papers plots rankers ranks \
recalibrating row_kernels shortlist_kernel train training_again training_texts))

# Workers take contiguous tests (worksteal), so that most modules' fixtures are made once.
test: .venv/dev
	$(BIN)/python -m pytest -n auto --dist worksteal --ignore tests/test_guides.py $(MODELS:%=--ignore %)

test-models: .venv/dev
	$(BIN)/python -m pytest -n auto --dist worksteal $(MODELS)

# Every page of the documentation runs as it is printed.
test-guides: .venv/dev
	$(BIN)/python -m pytest -n auto --dist worksteal tests/test_guides.py

# The variants that `make test` leaves out, and every property with many examples instead of few.
test-slow: .venv/dev
	LACONIC_TESTS=thorough $(BIN)/python -m pytest -n auto --dist worksteal -m 'slow or hypothesis'

# A cluster of Ray with two cores on this machine, whose processes are killed.
test-ray: .venv/dev
	$(BIN)/python -m pytest tests/bulk/test_ray.py -m slow

# The tests of `make test test-models` with the annotations of all packages checked at run time.
test-types: .venv/dev
	LACONIC_CHECKS=all $(BIN)/python -m pytest -n auto --dist worksteal --ignore tests/test_guides.py

# The tests of `make test test-models` with the lowest versions of the package's dependencies, in an environment of their own.
test-oldest: build/oldest/made
	build/oldest/bin/python -m pytest -n auto --dist worksteal -W ignore::DeprecationWarning --ignore tests/test_guides.py --ignore tests/test_tutorials.py

build/oldest/made: pyproject.toml constraints.txt
	$(PYTHON) -m venv --clear build/oldest
	$(PYTHON) -m tests.oldest > build/oldest/constraints.txt
	build/oldest/bin/python -m pip install --quiet -c build/oldest/constraints.txt $(TORCH)
	build/oldest/bin/python -m pip install --quiet -c build/oldest/constraints.txt -c constraints.txt \
	--editable '.[train,track]' pytest pytest-xdist hypothesis beartype pandas hatchling
	@touch $@

# The backend of Annif, with a real Annif in an environment of its own. Where NLTK does not find its punkt_tab by itself,
# NLTK_DATA must name the folder that holds it.
test-annif: build/annif/made
	build/annif/bin/python -m pytest tests/test_annif_backend.py

build/annif/made: pyproject.toml constraints.txt
	$(PYTHON) -m venv --clear build/annif
	build/annif/bin/python -m pip install --quiet -c constraints.txt $(TORCH)
	build/annif/bin/python -m pip install --quiet -c constraints.txt --editable '.[annif]' \
	pytest pytest-xdist hypothesis beartype
	@touch $@

test-browser: chromium docs
	$(BIN)/python -m pytest tests/browser

check: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest tests/test_layers.py

# Execute the notebooks of tutorials/ into build/tutorials: a cell that fails or warns is an error.
tutorials: .venv/docs
	$(BIN)/python -m reference.notebooks

# The documentation site, into build/site, with tutorials executed where build/tutorials lacks them. A broken link, or a
# page that the navigation lacks, is an error; --quiet would hide the warnings that --strict counts.
docs: .venv/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

docs-serve: .venv/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs serve

bench: .venv/dev
	$(BIN)/python -m benchmarks

# What the service must survive, on two cores that have nothing else to do: about twenty minutes.
chaos: .venv/chaos build/debian-laptop
	$(BIN)/python -m benchmarks.chaos --model build/debian-laptop

# Kills, damaged and hostile folders and files, then the service: about an hour on two cores.
campaign: .venv/chaos build/debian-laptop
	$(BIN)/python -m benchmarks.campaign
	$(BIN)/python -m benchmarks.chaos load stop swap --model build/debian-laptop

build/debian-laptop: | .venv/laconic
	$(BIN)/laconic train debian-related --preset laptop --out $@

# Known security flaws of what is installed here, from the advisories of the Python Package Index. A package that could not be looked up,
# as where the index cannot be reached, is an error (--strict).
audit: .venv/laconic
	$(PYTHON) -m venv .venv/audit && .venv/audit/bin/python -m pip install --quiet pip-audit
	@mkdir -p build
	$(BIN)/python -m reference.sbom --requirements > build/audited.txt
	.venv/audit/bin/pip-audit --strict --no-deps --disable-pip --requirement build/audited.txt

# What an installation without extras consists of, in CycloneDX's JSON; it belongs to a release.
sbom: .venv/laconic
	@mkdir -p build
	$(BIN)/python -m reference.sbom > build/sbom.json

requirements: .venv/laconic
	echo '# What the image installs: the versions that the tests ran with. `make requirements` writes it anew.' > deploy/requirements.txt
	$(BIN)/python -m reference.sbom --requirements >> deploy/requirements.txt

screenshot: chromium $(MODEL)
	$(BIN)/python -m benchmarks._page_pictures $(MODEL)

# The system's Chromium is used. Where there is none apt is asked for it, by root or by a sudo that needs no password.
chromium: .venv/browser
	@$(BIN)/python -m benchmarks._browser >/dev/null 2>&1 || { $(AS_ROOT) apt-get -qq update && \
	$(AS_ROOT) apt-get -qq install -y --no-install-recommends chromium fonts-inter >/dev/null; } || true
	@$(BIN)/python -m benchmarks._browser

# torch first and by its pin, then the rest held to it: any other order fetches gigabytes of CUDA.
.venv/laconic: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(PIP) $(TORCH)
	$(PIP) --editable '.[train]'
	@touch $@

.venv/dev: .venv/laconic
	$(PIP) --editable '.[dev]'
	@touch $@

.venv/docs: .venv/laconic
	$(PIP) --editable '.[docs]'
	@touch $@

.venv/chaos: .venv/laconic
	$(PIP) --editable '.[chaos]'
	@touch $@

.venv/browser: .venv/dev
	$(PIP) --editable '.[browser]'
	@touch $@

clean:
	rm -rf .venv dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
