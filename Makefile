# Every target sets up .venv by itself: with uv where it works, with venv and pip elsewhere.
# To start afresh, delete .venv.

VENV := .venv
BIN := $(VENV)/bin
# What a prompt needs, what the window needs too, and what tests and lint, and packaging.
READY := $(VENV)/.ready
WINDOW_READY := $(VENV)/.ready-for-the-window
DEV_READY := $(VENV)/.ready-for-work
PACKAGING_READY := $(VENV)/.ready-for-packaging
# As pyproject.toml has it, which pip and uv read: uv ignores the upper bounds of packages.
PYTHONS := $(shell sed -n 's/^requires-python = "\([^"]*\)".*/\1/p' pyproject.toml)
SUITS := $(shell echo '$(PYTHONS)' | sed 's/>=3\.\([0-9]*\),<3\.\([0-9]*\)/(3, \1) <= sys.version_info[:2] < (3, \2)/')
# A Python for Intel runs on other Macs too, where MLX has no wheels for it.
USABLE := -c 'import ensurepip, platform, sys, venv; sys.exit(not $(SUITS) or (sys.platform, platform.machine()) == ("darwin", "x86_64"))'
comma := ,
# Tests run in so many processes at once, each with one core for its matrices.
WORKERS := 2
PYTEST = $(BIN)/pytest --quiet --numprocesses=$(WORKERS) --dist=worksteal --durations=10
# Compiled modules are kept, whatever the shell says: every process that a test starts needs them.
unexport PYTHONDONTWRITEBYTECODE
# Not those whose processes are others', which compute as on a CPU.
ON_A_MAC := $(wildcard tests/engine/test_*.py) $(addprefix tests/engine/,bench conversation core distil draft_length drafters process)
EVERY := -m "slow or not slow" --hypothesis-profile=all
LOSSLESS := $(addprefix tests/engine/,test_lossless.py test_architectures.py test_distribution.py core/test_cache.py)

# The prompt as it was typed: it travels in the environment, so that quotes and dollars survive.
override PROMPT := $(value PROMPT)
export PROMPT
# Where nothing can be shown there is no window to fetch, which is more than half of it all.
DISPLAY_HERE := $(or $(DISPLAY),$(WAYLAND_DISPLAY),$(QT_QPA_PLATFORM),$(filter Darwin,$(shell uname)))
WINDOW_ASKED := $(if $(PROMPT),,$(DISPLAY_HERE))

.PHONY: help run test test-as-on-a-mac test-slow test-all test-lossless lab-test mutants lint format bench results simulate record retrieval pictures pictures-of-states benchmark-window clients tools benchmark-server lab app dmg twin locks clean
.DEFAULT_GOAL := help

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1	/p' $(MAKEFILE_LIST)

run: $(if $(WINDOW_ASKED),$(WINDOW_READY),$(READY)) ## open the window (no display: chat in the terminal); with PROMPT="..." answer once
	@if [ -n "$$PROMPT" ]; then \
		$(BIN)/slipstream generate --prompt="$$PROMPT" && \
		echo 'Next: make run (the window), $(BIN)/slipstream chat, or make help.' >&2; \
	else $(BIN)/python -m app; fi

test: $(DEV_READY) ## the quick tests: four minutes on WORKERS=2 cores
	$(PYTEST)

test-as-on-a-mac: $(DEV_READY) ## the quick tests of the engine, with the code that a Mac's GPU runs
	$(PYTEST) --as-on-a-mac $(ON_A_MAC)

test-lossless: $(DEV_READY) ## all tests of losslessness
	$(PYTEST) $(EVERY) $(LOSSLESS)

test-slow: $(DEV_READY) ## what `make test` leaves out
	$(PYTEST) -m slow --hypothesis-profile=all

test-all: $(DEV_READY) ## all there are, with all examples of each property: 45 minutes on two cores
	$(PYTEST) $(EVERY)

lab-test: $(DEV_READY) ## the tests of what developers measure with
	$(PYTEST) $(EVERY) tests/lab

mutants: $(DEV_READY) ## hand-written faults, which tests must catch; ARGS="tool grammar core:"
	$(BIN)/python -m tests.lab.mutants $(ARGS)

lint: $(DEV_READY) ## style, types, which package imports which, and how large each folder is
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy --strict app engine models packaging
	$(BIN)/mypy --strict --package tests.lab.catalog --package tests.lab.retrieval --package tests.lab.simulate --package tests.lab.window_benchmark
	$(BIN)/lint-imports
	$(BIN)/pytest --quiet -p no:xdist tests/test_budgets.py

format: $(DEV_READY) ## rewrite the code in the house style
	$(BIN)/ruff check --fix --exit-zero --quiet
	$(BIN)/ruff format

bench: $(READY) ## measure speculative against plain decoding on this machine
	$(BIN)/slipstream bench

results: $(READY) ## write engine/bench/RESULTS.md from the reports in engine/bench/results
	$(BIN)/slipstream bench --from engine/bench/results --markdown engine/bench/RESULTS.md

simulate: $(READY) ## play draft lengths against recorded drafts and published costs; ARGS="--curve m4-pro"
	$(BIN)/python -m tests.lab.simulate play $(ARGS)

record: $(READY) ## record what drafters propose in answers of a pair, for `make simulate`; ARGS="--out FILE"
	$(BIN)/python -m tests.lab.simulate record $(ARGS)

retrieval: $(READY) ## whose answers stand in the passages that a message gets; ARGS="--tokenizer FILE"
	$(BIN)/python -m tests.lab.retrieval $(ARGS)

pictures: $(DEV_READY) ## the window with the starter pair, drawn without a display; ARGS=FOLDER
	$(BIN)/python -m tests.lab.pictures.real_pair $(ARGS)

pictures-of-states: $(DEV_READY) ## the window in its chief states, with made-up answers; ARGS="FOLDER --only tools"
	$(BIN)/python -m tests.lab.pictures $(ARGS)

benchmark-window: $(DEV_READY) ## measure what the window's frames cost while an answer grows
	$(BIN)/python -m tests.lab.window_benchmark $(ARGS)

clients: $(READY) ## try other people's clients with `slipstream serve`; ARGS="--only openai --server mlx-lm"
	$(BIN)/python -m tests.lab.clients $(ARGS)

tools: $(READY) ## try other people's MCP servers in our host
	$(BIN)/python -m tests.lab.tools

benchmark-server: $(READY) ## measure our server and mlx-lm's under several clients at once; ARGS="--streams 4"
	$(BIN)/python -m tests.lab.clients.load $(ARGS)

lab: $(DEV_READY) ## other tools of tests/lab by name; ARGS="gpu --dry-run"
	$(BIN)/python -m tests.lab.$(ARGS)

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
define make_venv
@set -e; \
refuse() { echo "$$1, then run make again." >&2; exit 1; }; \
if [ "$$(uname)" = Darwin ]; then \
	macos=$$(sw_vers -productVersion); \
	if [ "$$(sysctl -in sysctl.proc_translated)" = 1 ]; then \
		refuse 'This terminal runs under Rosetta: open one that does not'; \
	elif [ "$$(uname -m)" != arm64 ]; then \
		echo 'This Mac has an Intel processor: Slipstream needs Apple Silicon.' >&2; exit 1; \
	elif [ "$${macos%%.*}" -lt 14 ]; then \
		refuse "This Mac has macOS $$macos: update it to macOS 14 or newer"; \
	fi; \
fi; \
usable() { "$$@" $(USABLE) 2>/dev/null; }; \
if usable $(BIN)/python; then exit 0; fi; \
echo '  Making $(VENV)'; \
if uv --version >/dev/null 2>&1; then exec uv venv --clear --python '$(PYTHONS)' $(VENV); fi; \
for python in python3.12 python3.13 python3.14 python3 python none; do \
	if usable $$python; then break; fi; \
done; \
if [ $$python = none ]; then \
	refuse 'Slipstream needs Python $(PYTHONS), with venv: install it (or uv)'; \
fi; \
$$python -m venv --clear $(VENV)
endef

define install
@if uv --version >/dev/null 2>&1; then uv pip install --python $(BIN)/python --editable '$(1)'; \
else \
	$(BIN)/python -m pip --version >/dev/null 2>&1 || $(BIN)/python -m ensurepip; \
	$(BIN)/python packaging/set_up.py '$(1)'; \
fi
@touch $(2)
endef

$(READY): pyproject.toml
	@echo 'Setting up, once: about 75 MB (95 on a Mac) of Python packages.'
	$(make_venv)
	$(call install,.,$@)

$(WINDOW_READY): pyproject.toml
	@echo 'Setting up the window, once: about 80 MB (110 on a Mac) of Qt, and what else is not here yet.'
	$(make_venv)
	$(call install,.[window],$(READY) $@)

$(DEV_READY): pyproject.toml
	@echo 'Setting up for work on it, once: about 45 MB of tools, and what else is not here yet.'
	$(make_venv)
	$(call install,.[window$(comma)dev],$(READY) $(WINDOW_READY) $@)

$(PACKAGING_READY): pyproject.toml
	@echo 'Setting up for packaging, once: about 120 MB of tools, and what else is not here yet.'
	$(make_venv)
	$(call install,.[window$(comma)dev$(comma)packaging],$(READY) $(WINDOW_READY) $(DEV_READY) $@)
