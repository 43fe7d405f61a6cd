"""Fixtures of the tests of the documentation."""

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.places import ROOT
from tests.support.process import Typed


@pytest.fixture(scope="session")
def explorer_file() -> Path:
    """The bank explorer, as a reader of a checkout opens it."""
    return ROOT / "docs" / "explorer" / "index.html"


@pytest.fixture(scope="session", autouse=True)
def _scripts() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "docs")
        yield


@pytest.fixture
def typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Typed:
    """Return a function that runs a command line in an empty folder."""
    return Typed(tmp_path, monkeypatch, capsys)


@pytest.fixture
def examples(_scripts: None) -> ModuleType:
    """The script that runs the examples of the pages."""
    return importlib.import_module("examples")


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
