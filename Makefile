# Four verbs: make app, make test, make check, make bench. Each sets up .venv by itself.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: app test test-all check bench lock clean

app: $(STAMP)
	$(BIN)/music-transformer serve

test: $(STAMP)
	$(BIN)/python -m pytest

# The slower ones too: model training, corpora (where present), a real browser, hostile traffic.
test-all: $(STAMP)
	$(BIN)/python -m pytest -m "slow or corpus or browser or abuse or not slow"

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	-$(BIN)/python tools/audit.py   # tells of advisories; one that came out overnight does not fail a change

bench: $(STAMP)
	$(BIN)/python -m benchmarks

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check -q -c constraints.txt -e '.[app,train,test]'
	-$(BIN)/python -m gpt_core.native_build   # without a compiler everything runs all the same, slower
	touch $@

# Re-pins everything but torch, whose CUDA build would pull in gigabytes.
lock:
	uv pip compile --universal --python-version 3.11 --extra app --extra train --extra test --no-annotate --no-header pyproject.toml \
	  | sed -e '/^nvidia/d' -e '/^cuda/d' -e '/^triton/d' -e 's/^torch==.*/torch==2.13.0/' > constraints.txt

clean:
	rm -rf $(VENV) dist .pytest_cache .mypy_cache .ruff_cache
