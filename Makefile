# Every target builds what it needs in .venv; nothing else on the machine is touched.
# The peers of bench-queries need Python 3.12 and have .venv-peers: make peers PEERS_PYTHON=...
# Another interpreter, in an environment of its own: make test PYTHON=python3.13 VENV=.venv-3.13
# ARGS reaches pytest, the benchmarks and the experiments: make test ARGS="-k posterior"

PYTHON ?= python3
VENV ?= .venv
PEERS_PYTHON ?= python3.12
PEERS_VENV ?= .venv-peers
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt
PINS := pyproject.toml constraints.txt
PYTEST := $(BIN)/python -m pytest
SUITE := --doctest-modules src/credex tests

# What `make test-blas` repeats: every test whose numbers pass through BLAS.
NUMERIC := -m "not slow" tests $(addprefix --ignore=tests/,compat models plots serve test_cli.py test_cli_page.py test_disk.py \
  test_engines.py test_experiments.py test_formatting.py test_html.py test_imports.py test_interop.py \
  test_long_runs.py test_portfolio.py test_readme.py test_report.py test_report_page.py test_site.py \
  test_verdict.py)

ifneq ($(origin PYTHON),file)
ifneq ($(wildcard $(VENV)/.made),)
ifneq ($(shell "$(PYTHON)" -V 2>&1),$(shell $(BIN)/python -V 2>&1))
$(error $(VENV) holds $(shell $(BIN)/python -V 2>&1), not $(PYTHON): name another, VENV=.venv-other, or delete it)
endif
endif
endif

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help demo demo-text test test-all test-blas check docs docs-code gallery clean paper pictures
.PHONY: bench-global bench-overhead bench-batch bench-coverage bench-queries bench-rows bench-lime bench-cost
.PHONY: peers peers-shapleig bench-interactions bench-image bench-deletion bench-photographs bench-text bench-scale

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.core ## train a model and explain one of its predictions
	$(BIN)/python examples/demo.py

demo-text: $(VENV)/.core ## explain a message that a spam filter catches, and draw it
	$(BIN)/python -m examples.text

test: check ## lint, types and tests, without slow ones and those of torch, shap and ONNX
	OMP_NUM_THREADS=1 $(PYTEST) -n 2 -m "not slow" $(SUITE) $(ARGS)

test-all: check $(VENV)/.test-all ## lint, types and all tests, with every package installed
	CREDEX_CI=1 OMP_NUM_THREADS=1 $(PYTEST) -n 2 $(SUITE) $(ARGS)

test-blas: $(VENV)/.test ## the numeric tests on other BLAS kernels and with two BLAS threads
	@wide=; if grep -qw avx512f /proc/cpuinfo 2>/dev/null; then wide=SkylakeX; fi; \
	for kernel in Prescott Haswell $$wide; do \
	  echo "OPENBLAS_CORETYPE=$$kernel"; \
	  OPENBLAS_CORETYPE=$$kernel OMP_NUM_THREADS=1 $(PYTEST) -q -n 2 $(NUMERIC) $(ARGS) || exit; \
	done
	OPENBLAS_NUM_THREADS=2 OMP_NUM_THREADS=2 $(PYTEST) -q $(NUMERIC) $(ARGS)

check: $(VENV)/.test ## lint, format and types only
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/.docs ## build the documentation site into site/; a warning is an error
	$(BIN)/python docs/site/build.py

docs-code: $(VENV)/.test-all ## run every Python block of README.md and docs/
	CREDEX_CI=1 $(PYTEST) tests/test_readme.py $(ARGS)

gallery: $(VENV)/.docs ## draw the pictures of docs/gallery.md
	$(BIN)/python -m examples.gallery

bench-overhead: $(VENV)/.bench ## time per explanation against the floor, lime and shap
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.overhead $(ARGS)

bench-batch: $(VENV)/.bench ## rows per second against lime and shap
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.batch $(ARGS)

bench-coverage: $(VENV)/.bench ## how often the intervals hold the true value
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.coverage $(ARGS)
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.reliability $(ARGS)
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.other_games $(ARGS)
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.unseen_games $(ARGS)

bench-rows: $(VENV)/.bench ## error over the whole background by model rows, against shap and LightSHAP
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.rows $(ARGS)

bench-global: $(VENV)/.bench ## averages over a portfolio: coverage, model rows against shap and sage
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.global_importance $(ARGS)
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.global_loss $(ARGS)

# --quick takes the peers' environment if it is there and does without if not.
bench-queries: $(VENV)/.bench $(if $(findstring --quick,$(ARGS)),,$(PEERS_VENV)/.peers)
bench-queries: ## error at the same number of queries against shap, shapiq and LightSHAP
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.queries --peers $(PEERS_VENV)/bin/python $(ARGS)

peers: $(PEERS_VENV)/.peers ## the environment of the peers (Python 3.12 or newer)

peers-shapleig: $(PEERS_VENV)/.shapleig ## the same with ShaplEIG (torch: gigabytes to download)

bench-interactions: $(VENV)/.bench ## interactions of pairs: error against shapiq, coverage
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.interactions $(ARGS)

bench-image: $(VENV)/.bench ## perturbed images per second and memory against lime and shap
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.image $(ARGS)

bench-deletion: $(VENV)/.bench ## MNIST: deletion curves against lime, shap and chance
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.deletion $(ARGS)

bench-photographs: $(VENV)/.bench ## ImageNet: which regions matter, error against lime
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.photographs $(ARGS)

bench-text: $(VENV)/.bench ## texts: coverage against known answers, time, error against lime
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.text $(ARGS)

bench-lime: $(VENV)/.bench ## error to the exact surrogate against lime, and noisy models
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.surrogates $(ARGS)

bench-scale: $(VENV)/.bench ## 100,000 rows on local processes, dask, Ray and Spark: speed and memory
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.scale $(ARGS)

bench-cost: $(VENV)/.bench ## what the Gaussian process costs and when it pays
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.cost $(ARGS)

paper: $(VENV)/.paper ## run the paper's experiments, write docs/paper.md (not with ARGS=--quick)
	OMP_NUM_THREADS=1 $(BIN)/python -m experiments all --jobs 2 $(ARGS)

pictures: $(VENV)/.bench ## draw the pictures of docs/images.md
	$(BIN)/python -m examples.images

clean: ## remove .venv, .venv-peers, caches and build products
	rm -rf $(VENV) $(PEERS_VENV) build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# One environment, one stamp for each set of packages; a stamp older than the pins installs again.
$(VENV)/.made:
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  found=$$("$(PYTHON)" -V 2>&1) || found="not found or does not run"; \
	  echo "credex needs Python 3.11 or newer; '$(PYTHON)': $$found." >&2; \
	  echo "Name another one: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	"$(PYTHON)" -m venv $(VENV)
	@touch $@

$(VENV)/.core: $(PINS) | $(VENV)/.made
	$(PIP) -e .
	@touch $@

$(VENV)/.%: $(PINS) | $(VENV)/.made # the other sets are extras of pyproject.toml
	$(PIP) -e '.[$*]'
	@touch $@

# The peers of bench-queries. credex is not installed there: they read games from benchmarks/data.
$(PEERS_VENV)/.made:
	@"$(PEERS_PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null || { \
	  found=$$("$(PEERS_PYTHON)" -V 2>&1) || found="not found or does not run"; \
	  echo "The peers need Python 3.12 or newer (shapiq 1.8); '$(PEERS_PYTHON)': $$found." >&2; \
	  echo "Name another one: make peers PEERS_PYTHON=/path/to/python3.12" >&2; \
	  echo "Without it: make bench-queries ARGS=--quick, against the peers of 2025." >&2; exit 1; }
	"$(PEERS_PYTHON)" -m venv $(PEERS_VENV)
	@touch $@

$(PEERS_VENV)/.%: benchmarks/%.txt | $(PEERS_VENV)/.made
	$(PEERS_VENV)/bin/python -m pip install -qq --disable-pip-version-check -r $<
	@touch $@

$(PEERS_VENV)/.shapleig: $(PEERS_VENV)/.peers
