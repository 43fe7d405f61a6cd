# make demo   what the project does, on this machine        make test   everything that needs no GPU
# make lint   style and types                                make record all recordings again (GPU and ncu)
# make picture  the README's picture and the example report (Chromium)

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
.PHONY: demo test test-gpu lint record picture clean

demo: .venv/installed
	$(BIN)/ncu-swizzle profile kernel2 --export swizzle-out/demo --force-overwrite
	@echo && echo "Open swizzle-out/demo/report.html"

test: .venv/installed-dev
	$(BIN)/python -m pytest -n 2 $(PYTEST_OPTIONS)

test-gpu: .venv/installed-dev
	$(BIN)/python -m pytest tests/gpu $(PYTEST_OPTIONS)

lint: .venv/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

picture: .venv/installed-dev
	$(BIN)/python docs/picture.py

record:
	$(PYTHON) recordings/record.py

clean:
	rm -rf .venv swizzle-out dist

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/installed: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '$(DEMO)'
	@touch $@

.venv/installed-dev: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '$(DEV)'
	@touch $@ .venv/installed
