"""Tests that need a GPU, PyCUDA and ncu; elsewhere they are skipped, with the reason."""

from __future__ import annotations

import importlib.util
import shutil

import pytest

from ncu_swizzle.ncu import gpu


def _lacking() -> str:
    if gpu.absent():
        return gpu.absent()
    if importlib.util.find_spec("pycuda") is None:
        return "PyCUDA is not installed"
    return "" if shutil.which("ncu") else "ncu is not on PATH"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    lacking = _lacking()
    for item in items:
        if lacking and "gpu" in item.path.parent.name:
            item.add_marker(pytest.mark.skip(reason=f"needs a GPU: {lacking}"))
