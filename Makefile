# Every target sets up .venv by itself: with uv where it works, with venv and pip elsewhere.
# To start afresh, delete .venv.

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PACKAGING_READY := $(VENV)/.ready-for-packaging
NEW_ENOUGH := -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 12))'

# The prompt as it was typed: it travels in the environment, so that quotes and dollars survive.
override PROMPT := $(value PROMPT)
export PROMPT

.PHONY: help run test test-all lint format bench simulate record benchmark-window app dmg twin locks clean
.DEFAULT_GOAL := help

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1	/p' $(MAKEFILE_LIST)

run: $(READY) ## open the window (no display: chat in the terminal); with PROMPT="..." answer once
	@if [ -n "$$PROMPT" ]; then $(BIN)/slipstream generate --prompt="$$PROMPT"; \
	else $(BIN)/python -m app; fi

test: $(READY) ## the quick tests
	$(BIN)/pytest

test-all: $(READY) ## the slow tests too
	$(BIN)/pytest -m ""

lint: $(READY) ## style, types, and which package imports which
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy --strict app engine models packaging
	$(BIN)/mypy --strict --package tests.lab.simulate --package tests.lab.window_benchmark
	$(BIN)/lint-imports

format: $(READY) ## rewrite the code in the house style
	$(BIN)/ruff check --fix --exit-zero --quiet
	$(BIN)/ruff format

bench: $(READY) ## measure speculative against plain decoding on this machine
	$(BIN)/slipstream bench

simulate: $(READY) ## play draft lengths against recorded guesses and published costs; ARGS="--curve m4-pro"
	$(BIN)/python -m tests.lab.simulate play $(ARGS)

record: $(READY) ## record what drafters guess in answers of a pair, for `make simulate`; ARGS="--out FILE"
	$(BIN)/python -m tests.lab.simulate record $(ARGS)

benchmark-window: $(READY) ## measure what the window's frames cost while an answer grows
	$(BIN)/python -m tests.lab.window_benchmark.run $(ARGS)

app: $(PACKAGING_READY) ## dist/Slipstream.app for Macs, made on Linux too; STARTER=no leaves its weights out
	$(BIN)/python packaging/build.py app $(if $(filter no,$(STARTER)),--without-starter)

dmg: $(PACKAGING_READY) ## the disk image and the .zip of dist/Slipstream.app
	$(BIN)/python packaging/build.py image

twin: $(PACKAGING_READY) ## the same application for Linux, in build/twin, and its self-test
	$(BIN)/python packaging/build.py twin

locks: $(PACKAGING_READY) ## pick the wheels that are shipped anew
	$(BIN)/python packaging/build.py locks

clean: ## remove builds and caches; keeps .venv and downloaded weights
	rm -rf build dist *.egg-info .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find app engine models tests packaging -name __pycache__ -prune -exec rm -rf {} +

# `uv` may be a pyenv shim with nothing behind it, and so may any python: try, do not look.
$(READY): pyproject.toml
	@echo 'Setting up $(VENV) ...'
	@set -e; \
	usable() { "$$@" $(NEW_ENOUGH) 2>/dev/null; }; \
	if uv --version >/dev/null 2>&1; then \
		usable $(BIN)/python || uv venv --clear --python '>=3.12' $(VENV); \
		uv pip install --python $(BIN)/python --editable '.[dev]'; \
	else \
		if ! usable $(BIN)/python; then \
			for python in python3.12 python3.13 python3.14 python3 python none; do \
				if usable $$python; then break; fi; \
			done; \
			if [ $$python = none ]; then \
				echo 'Slipstream needs Python 3.12 or newer, with venv: install it (or uv), then run make again.' >&2; \
				exit 1; \
			fi; \
			$$python -m venv --clear $(VENV); \
		fi; \
		$(BIN)/python -m pip --version >/dev/null 2>&1 || $(BIN)/python -m ensurepip; \
		$(BIN)/python -m pip install --quiet --editable '.[dev]'; \
	fi
	@touch $@

$(PACKAGING_READY): $(READY)
	@if uv --version >/dev/null 2>&1; then \
		uv pip install --quiet --python $(BIN)/python --editable '.[dev,packaging]'; \
	else \
		$(BIN)/python -m pip install --quiet --editable '.[dev,packaging]'; \
	fi
	@touch $@
