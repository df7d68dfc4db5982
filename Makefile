# Every target builds what it needs in .venv; nothing else on the machine is touched.
# Another interpreter: make test PYTHON=python3.12

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt
PINS := pyproject.toml constraints.txt

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help demo test check bench-overhead bench-batch bench-coverage bench-queries
.PHONY: bench-lime bench-cost
.PHONY: bench-image bench-deletion bench-photographs pictures paper docs clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.core ## train a model and explain one of its predictions
	$(BIN)/python examples/demo.py

.PHONY: demo-text bench-text
demo-text: $(VENV)/.core ## explain a message that a spam filter catches, and draw it
	$(BIN)/python -m examples.text

bench-text: $(VENV)/.text ## texts: coverage against known answers, time, error against lime
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.text $(ARGS)

test: check ## lint, types and all tests
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --doctest-modules src/credex tests $(ARGS)

check: $(VENV)/.test ## lint and types only
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench-overhead: $(VENV)/.bench ## time per explanation against the floor, lime and shap
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.overhead $(ARGS)

bench-batch: $(VENV)/.bench ## rows per second against lime and shap
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.batch $(ARGS)

bench-coverage: $(VENV)/.bench ## how often the intervals hold the true value
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.coverage $(ARGS)
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.reliability $(ARGS)
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.other_games $(ARGS)

bench-queries: $(VENV)/.bench ## error at the same number of queries against shap and shapiq
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.queries $(ARGS)

bench-image: $(VENV)/.bench ## perturbed images per second and memory against lime and shap
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.image $(ARGS)

bench-deletion: $(VENV)/.bench ## MNIST: deletion curves against lime, shap and chance
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.deletion $(ARGS)

bench-photographs: $(VENV)/.bench ## ImageNet: what regions matter, error against lime
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.photographs $(ARGS)

pictures: $(VENV)/.bench ## draw the pictures of docs/images.md
	$(BIN)/python -m examples.images

bench-lime: $(VENV)/.bench ## error to the exact surrogate against lime, and noisy models
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.surrogates $(ARGS)

bench-cost: $(VENV)/.bench ## what the Gaussian process costs and when it pays
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.cost $(ARGS)

paper: $(VENV)/.paper ## run the paper's experiments, write docs/paper.md (ARGS=--quick: neither)
	OMP_NUM_THREADS=1 $(BIN)/python -m experiments all --jobs 2 $(ARGS)

docs: $(VENV)/.test ## run every Python block of README.md and docs/
	$(BIN)/python -m pytest tests/test_readme.py $(ARGS)

clean: ## remove .venv, caches and build products
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# One environment, one stamp per set of packages: a stamp older than the pins installs again.
$(VENV)/.made:
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  found=$$("$(PYTHON)" -V 2>&1) || found="not found or does not run"; \
	  echo "credex needs Python 3.11 or newer; '$(PYTHON)': $$found." >&2; \
	  echo "Name another one: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	"$(PYTHON)" -m venv $(VENV)
	@touch $@

$(VENV)/.text: $(PINS) | $(VENV)/.made
	$(PIP) -e '.[bench,bench-text]'
	@touch $@

$(VENV)/.core: $(PINS) | $(VENV)/.made
	$(PIP) -e .
	@touch $@

$(VENV)/.test: $(PINS) | $(VENV)/.made
	$(PIP) -e '.[test]'
	@touch $@

$(VENV)/.bench: $(PINS) | $(VENV)/.made
	$(PIP) -e '.[bench]'
	@touch $@

$(VENV)/.paper: $(PINS) | $(VENV)/.made
	$(PIP) -e '.[paper]'
	@touch $@
