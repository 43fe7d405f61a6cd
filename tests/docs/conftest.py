"""Fixtures of the tests of the documentation."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.support import typed_lines
from tests.support.places import ROOT


@pytest.fixture(scope="session")
def explorer_file() -> Path:
    """The bank explorer, as a reader of a checkout opens it."""
    return ROOT / "docs" / "explorer" / "index.html"


@pytest.fixture(scope="session")
def script() -> Callable[[str], ModuleType]:
    """Return a function that loads a script of docs/ by its name."""

    def load(name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(f"docs_{name}", ROOT / "docs" / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


@pytest.fixture(scope="session")
def schemas(script: Callable[[str], ModuleType]) -> dict[str, Any]:
    """The published schemas by name."""
    published: dict[str, Any] = script("schemas").published()
    return published


@pytest.fixture(scope="session")
def validate(schemas: dict[str, Any]) -> Callable[[str, Any], None]:
    """Return a function that raises ValidationError unless a value fits the schema of this name."""
    jsonschema = pytest.importorskip("jsonschema", reason="needs jsonschema")

    def check(name: str, value: Any) -> None:
        jsonschema.Draft202012Validator(schemas[name]).validate(value)

    return check


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """Return a reader's folder: a checkout with kernels, reports and captured launches."""
    return typed_lines.desk(tmp_path / "desk")


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the documentation site, as `make docs` builds it."""
    for library in ("mkdocs", "material", "mkdocstrings"):
        pytest.importorskip(library, reason=f"needs {library}")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT)}
    subprocess.run(command, cwd=ROOT, check=True, env=environment)
    return folder
