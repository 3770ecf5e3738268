# `make run` starts everything on this machine with demo traffic; `make run DEMO=0` without. `make test` runs every check.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV ?= .venv
DEMO ?= 1
BIN := $(VENV)/bin
# Three processes, each with whole files: on two cores, for many tests wait. Browser tests run alone: Chromium and a stack keep both busy.
PARALLEL := -n 3 --dist loadfile

help:
	@echo "make run [DEMO=0]   start gateway, collectors, worker and console, with demo traffic unless DEMO=0"
	@echo "make test           lint, types, import contracts, unit, integration, browser and smoke tests"
	@echo "make lock           resolve the dependencies again and write both lock files (needs uv)"

$(VENV)/.run: requirements.lock pyproject.toml
	@tools/venv "$(PYTHON)" "$(VENV)" requirements.lock && touch $@

$(VENV)/.test: requirements-dev.lock pyproject.toml
	@tools/venv "$(PYTHON)" "$(VENV)" requirements-dev.lock && touch $@ $(VENV)/.run

run: $(VENV)/.run
	@exec $(BIN)/cachescope up $(if $(filter 0,$(DEMO)),--no-demo,--demo)

system-packages:
	@tools/system-packages

test: system-packages $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -m "not browser" $(PARALLEL) $(PYTEST)
	$(BIN)/python -m pytest -m browser $(PYTEST)

lock:
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url \
	  --extra build pyproject.toml -o requirements.lock
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url \
	  --extra build --extra dev -c requirements.lock pyproject.toml -o requirements-dev.lock

.PHONY: help run test lock system-packages
