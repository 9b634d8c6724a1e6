# `make run` starts the app, `make test` runs everything, `make bench` measures. Each makes what it needs first.
PYTHON ?= python3
BIN := .venv/bin
ARGS ?=
WORKERS ?= 2

.PHONY: run dev test pytest lint bench format clean

run: .venv/runtime
	$(BIN)/streamlit run app.py $(ARGS)

# As `run`, but the page follows the files while you edit them.
dev: .venv/runtime
	$(BIN)/streamlit run app.py --server.fileWatcherType=auto --server.runOnSave=true --client.showErrorDetails=full $(ARGS)

test: lint pytest

pytest: .venv/development
	$(BIN)/python -m tests.browser.chromium
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(ARGS)

lint: .venv/development
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: .venv/development
	$(BIN)/python -m tests.browser.chromium
	$(BIN)/python -m benchmarks $(ARGS)

format: .venv/development
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

.venv/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and f"Napkin needs Python 3.11 or newer; {sys.executable} is {sys.version.split()[0]}. Try: make PYTHON=python3.12 run")'
	$(PYTHON) -m venv .venv
	@touch $@

.venv/runtime: .venv/python requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	@touch $@

.venv/development: .venv/runtime requirements-dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@touch $@
