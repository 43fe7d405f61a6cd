"""Where CUPTI is: in a toolkit, in an installed Python package, or beside ncu."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Iterator
from pathlib import Path

from ncu_swizzle import paths
from ncu_swizzle.errors import EnvironmentLacking

VARIABLE = "NCU_SWIZZLE_CUPTI"
INSTALL = f"pip install nvidia-cuda-cupti, or name libcupti.so: {VARIABLE}=/…/libcupti.so.13"
IN_TOOLKIT = ("extras/CUPTI/lib64", "lib64", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib")
IN_PACKAGES = ("cu*/lib", "cuda_cupti/lib")
_VERSION = re.compile(r"libcupti\.so\.([\d.]+)$")


def find() -> Path:
    """Return libcupti's path; raise EnvironmentLacking."""
    if named := os.environ.get(VARIABLE):
        if not Path(named).is_file():
            raise EnvironmentLacking(f"{VARIABLE} names {named}, which is not a file", INSTALL)
        return Path(named).absolute()
    for folder in _folders():
        if libraries := [file for file in folder.glob("libcupti.so*") if file.is_file()]:
            return max(libraries, key=_version)
    raise EnvironmentLacking("capturing needs CUPTI, which is part of the CUDA toolkit, and it was not found", INSTALL)


def _version(file: Path) -> tuple[int, ...]:
    match = _VERSION.search(file.name)
    return tuple(int(part) for part in match[1].split(".") if part) if match else ()


def _folders() -> Iterator[Path]:
    homes = [Path(os.environ.get(name, "")) for name in ("CUDA_HOME", "CUDA_PATH")]
    on_path = [Path(folder).parent for folder in paths.program_folders() if (Path(folder) / "nvcc").is_file()]
    for home in (*homes, *(folder.resolve() for folder in on_path), Path("/usr/local/cuda")):
        if home.is_absolute():
            yield from (home / below for below in IN_TOOLKIT)
    spec = importlib.util.find_spec("nvidia")
    for location in (spec.submodule_search_locations or ()) if spec else ():
        for pattern in IN_PACKAGES:
            yield from sorted(Path(location).glob(pattern), reverse=True)
