"""Fixtures of the tests of the documentation."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.places import ROOT
from tests.support.process import Typed


@pytest.fixture(scope="session")
def explorer_file() -> Path:
    """The bank explorer, as a reader of a checkout opens it."""
    return ROOT / "docs" / "explorer" / "index.html"


@pytest.fixture
def typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Typed:
    """Return a function that runs a command line in an empty folder."""
    return Typed(tmp_path, monkeypatch, capsys)


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
