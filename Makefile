PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PIP := $(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt

.PHONY: run test test-fast fuzz mutants judges lint types types-product types-tests contracts compiled
.PHONY: proto bench clean help

help:  ## what can be made here
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 12

# uv installs in a quarter of pip's time, and compiles the modules with all cores. It does not read
# what pip is configured with: where that names another index, or uv cannot install, pip does it.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { echo "Soltape needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) -V 2>/dev/null || echo none). Name another: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@if $(BIN)/python -m pip config list | grep -q index; then $(PIP) -e '.[dev]'; else \
		$(PIP) uv && VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install -q --compile-bytecode -c constraints.txt -e '.[dev]' \
		|| { echo "uv could not install what Soltape needs: pip does"; $(PIP) -e '.[dev]'; }; fi
	@touch $@

run: $(READY)  ## set up, then run the whole pipeline on a simulated chain
	@exec $(BIN)/soltape up

# Five at a time: much of the time they wait for processes to die and to come back.
# With compiled modules kept: each of hundreds of processes would compile them again.
test: $(READY)  ## set up, then run every test; BROKERS=both for those of agents and ingest twice
	PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -n 5 --dist loadfile --brokers $(or $(BROKERS),one)

test-fast: $(READY)  ## units only: tests that start no process; some 55 seconds on two cores
	PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -q -n auto --dist loadfile -m 'not slow and not processes and not node' \
		--hypothesis-profile fast --ignore tests/integration

fuzz: $(READY)  ## explore every property with two hundred times the examples, slow ones with less: forty minutes
	$(BIN)/pytest -q -n auto -m hypothesis --hypothesis-profile fuzz --timeout 0 --ignore tests/integration

# Not of the gate. It goes on where it was stopped: tests/README.md.
mutants: $(READY)  ## mutation testing; ROOM=, SAMPLE=, SEED=, MINUTES=, AGAIN=1, REPORT=1
	@nice -n 19 $(BIN)/python -m tests.mutants $(if $(ROOM),--room $(ROOM)) --sample $(or $(SAMPLE),300) \
		--seed $(or $(SEED),1) $(if $(MINUTES),--minutes $(MINUTES)) $(if $(AGAIN),--again) $(if $(REPORT),--report)

# Not of the gate. Installed once, 1.8 GB in .pytest_cache: tests/README.md.
judges: $(READY)  ## ask the SDKs of all protocols about positions in random worlds; ONLY=
	@$(BIN)/python -m tests.judges $(if $(ONLY),--only $(ONLY))

lint: $(READY)  ## style, and no retired word in the rooms that are free of them
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/python -m tests.rules.words

types: types-tests types-product  ## mypy: strict, and the tests

types-product: $(READY)
	$(BIN)/mypy

types-tests: $(READY)
	$(BIN)/mypy --config-file tests/mypy.toml

contracts: $(READY)  ## which package may import which
	$(BIN)/lint-imports

compiled: $(READY)  ## compile the tests, which each test process would do
	@found=$$(PYTHONDONTWRITEBYTECODE= $(BIN)/pytest --collect-only -qq 2>&1) || { echo "$$found"; exit 1; }

proto: $(READY)  ## generate the protobuf modules anew
	$(BIN)/python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. schemas/proto/*.proto
	$(BIN)/python -m grpc_tools.protoc -I. --grpc_python_out=. schemas/proto/geyser.proto

BENCHES := accounts api attacks decode e2e fanout holdings ingest market mcp memory parts pipeline pnl rebuild storage

# All of them, whatever one says: `pipeline` fails where the machine falls behind.
bench: $(READY)  ## every benchmark, quick: some ten minutes
	@failed=; for name in $(BENCHES); do $(BIN)/soltape bench $$name --quick || failed="$$failed $$name"; done; \
	test -z "$$failed" || { echo "failed:$$failed" >&2; exit 1; }

clean:  ## remove the environment and the data
	rm -rf $(VENV) .soltape
