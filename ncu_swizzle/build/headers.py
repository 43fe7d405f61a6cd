"""Third-party headers installed as Python packages, such as CuTe's in nvidia-cutlass."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ncu_swizzle import paths
from ncu_swizzle.errors import EnvironmentLacking

if TYPE_CHECKING:
    from ncu_swizzle.catalog.family import Family

EXTRAS = {"cutlass_library": "cute"}  # package → our extra that installs it


def locate(header: str) -> Path:
    """Return the folder inside an installed package that ``package:folder`` names.

    Raises EnvironmentLacking if the package is not installed or has no such folder.
    """
    package, _, inside = header.partition(":")
    spec = importlib.util.find_spec(package)
    for location in (spec.submodule_search_locations or ()) if spec else ():
        if (Path(location) / inside).is_dir():
            return Path(location) / inside
    extra = EXTRAS.get(package)
    install = f"pip install 'ncu-swizzle[{extra}]'" if extra else f"install the package that provides {package}"
    raise EnvironmentLacking(f"the headers {header} are not installed", install)


def source_roots(family: Family) -> Iterator[Path]:
    """Yield the folders that source paths are shown relative to, including those of installed third-party headers.

    Headers that are not installed are skipped: code compiled elsewhere does not need them here.
    """
    yield family.root
    if not family.shipped:
        yield paths.data_root()
    for name in family.headers:
        with contextlib.suppress(EnvironmentLacking):
            yield locate(name)
