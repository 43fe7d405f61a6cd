"""Import a user's Python file, which executes it, and find what is named in it: in the child process alone."""

from __future__ import annotations

import difflib
import importlib.util
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from ncu_swizzle.errors import EnvironmentLacking, NcuSwizzleError, UsageError

# What the libraries' packages are called, and the extra of ours that installs each.
EXTRAS = {"triton": "triton", "numba": "numba", "numba_cuda": "numba", "cuda": "nvrtc", "cutlass": "cutedsl"}


def module(file: Path) -> ModuleType:
    """Return the imported file; raise UsageError if it fails, EnvironmentLacking for a library that is missing."""
    name = file.stem if file.stem.isidentifier() else "ncu_swizzle_kernels"
    sys.path.insert(0, str(file.parent))  # for imports of its neighbours
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[name] = loaded
    try:
        spec.loader.exec_module(loaded)
    except NcuSwizzleError:
        raise
    except ModuleNotFoundError as error:
        raise missing(error, file) from error
    except (Exception, SystemExit) as error:
        raise UsageError(
            f"{file.name} cannot be imported: {place(error, file)}{type(error).__name__}: {error}",
            f"python3 {file} shows the traceback; what runs the kernel belongs under if __name__ == '__main__':",
        ) from error
    return loaded


def missing(error: ModuleNotFoundError, file: Path) -> NcuSwizzleError:
    """Return the error for a module that is not installed, with the command that installs it."""
    package = (error.name or "").partition(".")[0]
    if package in EXTRAS:
        return EnvironmentLacking(
            f"{file.name} needs {package}, which is not installed", f"pip install 'ncu-swizzle[{EXTRAS[package]}]'"
        )
    return EnvironmentLacking(f"{file.name} cannot be imported: {error}", f"install {package} for {sys.executable}")


def named(loaded: ModuleType, file: Path, function: str, kernels: Iterable[str]) -> Any:
    """Return what is called so in the file; raise UsageError, with the names of its kernels."""
    if hasattr(loaded, function):
        return getattr(loaded, function)
    names = list(kernels)
    meant = (difflib.get_close_matches(function, names, n=1) or names)[:1]
    raise UsageError(
        f"{file.name} has no {function}" + (f"; its kernels: {', '.join(names)}" if names else ""),
        f"name one: {file}::{meant[0]}" if meant else "name a kernel of the file",
    )


def place(error: BaseException | None, file: Path) -> str:
    """Return the line of the file that an error, or what caused it, comes from."""
    while error is not None:
        frames = traceback.extract_tb(error.__traceback__)
        if lines := [frame.lineno for frame in frames if frame.filename == str(file) and frame.lineno]:
            return f"line {lines[-1]}: "
        error = error.__cause__ or error.__context__
    return ""
