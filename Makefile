# make demo     what the project does, on this machine      make test     what needs no GPU and little CPU
# make lint     style and types                              make test-ROOM the same of one room: make test-smem
# make test-ci  what CI runs, in one go                      make test-all  all; test-long: what make test leaves to CI
# make test-newest  with the compilers of the environment, where others are installed
# make picture  the README's pictures                        make record   all recordings again (GPU and ncu)
# make docs     the documentation site, in site/               make cubins  what the tests keep of nvcc's work, again

PYTHON ?= python3
BIN := .venv/bin
# Where there is a GPU and a CUDA toolkit, PyCUDA comes along, and `make demo` measures. Elsewhere CUDA's compiler comes
# along, and it computes.
ifneq ($(shell command -v nvcc >/dev/null && nvidia-smi -L 2>/dev/null | grep GPU),)
DEMO := .[gpu]
DEV := .[gpu,dev]
else
DEMO := .[nvcc]
DEV := .[nvcc,dev]
endif
# Tests of one xdist_group run in one worker: they share a browser, or what takes long to read.
WORKERS := -n auto --maxprocesses 8 --dist loadgroup
# Tests start hundreds of processes; without kept bytecode each would compile the package again.
BYTECODE := PYTHONDONTWRITEBYTECODE= PYTHONPYCACHEPREFIX=$(CURDIR)/.pytest_cache/bytecode
.PHONY: demo test test-long test-newest test-ci test-all test-gpu cubins lint docs record picture clean

demo: .venv/installed
	$(BIN)/ncu-swizzle profile kernel2 --out swizzle-out/demo --force-overwrite
	@echo && echo "Open swizzle-out/demo/report.html"

test: .venv/installed-dev
	$(BYTECODE) $(BIN)/python -m pytest $(WORKERS) -m "not long and not slow" $(PYTEST_OPTIONS)

test-long: .venv/installed-dev
	$(BYTECODE) $(BIN)/python -m pytest $(WORKERS) -m "long and not slow" $(PYTEST_OPTIONS)

test-%: .venv/installed-dev
	$(BYTECODE) $(BIN)/python -m pytest $(WORKERS) -m "not long and not slow" tests/$* $(PYTEST_OPTIONS)

test-ci: .venv/installed-everything
	$(BYTECODE) $(BIN)/python -m pytest $(WORKERS) -m "not slow" $(PYTEST_OPTIONS)

# Rooms whose tests run compilers, with those of the environment even where others are installed, and nothing kept.
test-newest: .venv/installed-dev
	kept=$$(mktemp -d) && status=0; NCU_SWIZZLE_KEEP=$$kept CUDA_HOME=$$(ls -d $(CURDIR)/.venv/lib/python*/site-packages/nvidia/cu13) \
	  $(BYTECODE) $(BIN)/python -m pytest $(WORKERS) -m "not slow" tests/kernels tests/engines $(PYTEST_OPTIONS) || status=$$?; \
	  rm -r "$$kept"; exit $$status

test-all: .venv/installed-everything
	$(BYTECODE) $(BIN)/python -m pytest $(WORKERS) $(PYTEST_OPTIONS)

test-gpu: .venv/installed-dev
	$(BIN)/python -m pytest tests/gpu $(PYTEST_OPTIONS)

cubins: .venv/installed-dev
	$(BYTECODE) $(BIN)/python -m tests.support.kept

lint: .venv/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest --noconftest tests/package/test_layers.py

# NO_MKDOCS_2_WARNING: Material announces its successor at every build.
docs: .venv/installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

picture: .venv/installed-dev
	$(BIN)/python docs/picture.py

record:
	$(PYTHON) recordings/record.py

clean:
	rm -rf .venv swizzle-out dist site

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/installed: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '$(DEMO)'
	@touch $@

# What is heavy: compilers of kernels written in Python, Dask, servers of agents and editors, Jupyter. Without
# it, their tests say so and are skipped.
.venv/installed-everything: .venv/installed-dev
	$(BIN)/python -m pip install --quiet --editable '.[python-kernels,fleet,servers,docs]'
	@touch $@ .venv/installed-docs

.venv/installed-docs: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	@touch $@

.venv/installed-dev: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '$(DEV)'
	@touch $@ .venv/installed
