"""Kernels written in Python: marks of their compilers, launches, recordings from the H100, Triton's caches."""

import importlib.util
import json
import shutil
import tarfile
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from bench.attacks.corpus import frames
from ncu_swizzle.kernels.family import Target, read
from ncu_swizzle.kernels.toolchain import NVDISASM, PTXAS, Toolchain
from ncu_swizzle.reports import container
from tests.support.places import DATA, PROGRAMS, ROOT

TEXTS = DATA / "python" / "texts"  # Python files with kernels, a folder per language


def needs_language(package: str, *tools: str) -> pytest.MarkDecorator:
    """Return a mark that skips a test where a package, or one of CUDA's tools, is not installed."""
    outer, _, inner = package.partition(".")
    spec = importlib.util.find_spec(outer)  # of cutlass.cute it would import cutlass, for over half a second
    lacks = spec is None or not any(Path(place, inner).exists() for place in spec.submodule_search_locations or ())
    missing = f"{package} is not installed" if lacks else Toolchain().lacking(*tools)
    return pytest.mark.skipif(bool(missing), reason=f"{missing}: pip install 'ncu-swizzle[python-kernels]'")


NEEDS_TRITON = needs_language("triton", NVDISASM)
NEEDS_NUMBA = needs_language("numba_cuda", NVDISASM, PTXAS)
NEEDS_CUTE_DSL = needs_language("cutlass.cute", NVDISASM)
NEEDS_CUTILE = needs_language("cuda.tile", NVDISASM)


ARCHIVES = DATA / "python" / "recorded"  # one of what was compiled there, one of what was compiled elsewhere
EXAMPLES = ROOT / "examples" / "python"
FACTS = "facts.json"


@cache
def recorded() -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return what was recorded, and the cubins by kernel."""
    facts: dict[str, Any] = {}
    cubins: dict[str, bytes] = {}
    for path in sorted(ARCHIVES.glob("*.tar.xz"), key=lambda path: len(path.name)):
        with tarfile.open(path) as archive:
            files = {entry.name: archive.extractfile(entry) for entry in archive.getmembers()}
            content = {name: file.read() for name, file in files.items() if file}
        found = json.loads(content.pop(FACTS))
        assert found["machine"] == facts.get("machine", found["machine"]), f"{path} is of another machine"
        facts = {**found, "kernels": {**facts.get("kernels", {}), **found["kernels"]}}
        cubins |= {name.removesuffix(".cubin"): data for name, data in content.items()}
    return facts, cubins


def _with_launch(entry: dict[str, Any]) -> dict[str, Any]:
    """Return a family or kernel as it is written today; recordings have its launch beside its other fields."""
    old = {name: value for name, value in entry.items() if name in ("grid", "block", "shared", "cluster")}
    launch = {"grid": [], "block": [], "shared": "", "cluster": [], **old}
    return {"launch": launch, **{name: value for name, value in entry.items() if name not in old}}


def launched(name: str) -> Target:
    """Return the launch of a recorded kernel."""
    facts = recorded()[0]["kernels"][name]
    family = _with_launch(facts["family"])
    family["kernels"] = [_with_launch(kernel) for kernel in family["kernels"]]
    with TemporaryDirectory() as folder:
        described = Path(folder) / "family.json"
        described.write_text(json.dumps({**family, "folder": folder}), encoding="utf-8")
        family = replace(read(described), folder=EXAMPLES)
    return Target(family, family.kernels[0], family.problem())


CACHED = DATA / "python" / "cached"
SOURCE = "/tmp/ncu-swizzle/inlined/inlined.py"
HELPERS = "/tmp/ncu-swizzle/inlined/inlined_helpers.py"
_SOURCE_DATA, _BINARY = 1, 4


def fill(folder: Path, *left_out: str) -> Path:
    """Make the folder a cache that has the kernel, without some of its files; return it."""
    kernel = folder / "KEY"
    kernel.mkdir(parents=True)
    for file in CACHED.iterdir():
        if file.suffix not in left_out:
            shutil.copy(file, kernel)
    return folder


@cache
def report() -> bytes:
    """Return the report of tests/data/programs/triton_program.py as if the first kernel had inlined functions.

    Its machine code is the same, see tests/data/python/inlined.py: only the cubin's lines are others.
    """
    taken = frames.Report.taken_apart((PROGRAMS / "triton.ncu-rep").read_bytes())
    old = container.inspect(PROGRAMS / "triton.ncu-rep").results[0].cubin
    blocks = tuple(
        replace(block, payload=tuple((kind, _changed(kind, message, old)) for kind, message in block.payload))
        for block in taken.blocks
    )
    return replace(taken, blocks=blocks).put_together()


def _changed(kind: int, message: bytes, old: bytes) -> bytes:
    if kind != _SOURCE_DATA:
        return message
    new = (CACHED / "turn_tiles.cubin").read_bytes()
    parts = frames.taken_apart(message)
    return frames.put_together([(n, w, new if (n, value) == (_BINARY, old) else value) for n, w, value in parts])
