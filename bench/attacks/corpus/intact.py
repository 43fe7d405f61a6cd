"""Whole files to be damaged, beside those that tests damage too: facts, manifests, projects, kernels compiled now."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from bench.attacks.corpus import trees
from bench.attacks.corpus.hostile import EVIL, MODULE, PROGRAM
from bench.attacks.corpus.originals import FOREIGN, RECORDED, profile
from ncu_swizzle.kernels import catalog, toolchain
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.toolchain import ARCH, NVCC, Toolchain
from ncu_swizzle.reports import container
from tests.support.own_kernel import EXAMPLE, TYPED
from tests.support.places import DATA, PROGRAMS, RECORDINGS
from tests.support.reports import join

KERNELS = ("own", "transpose-plain", "vectors-4-stride", "gemm-padded", "warps")
SIZES = {"transpose-plain": {"n": 64}, "vectors-4-stride": {"tiles": 16}, "gemm-padded": {"n": 256}}


def sealed_facts(content: trees.Content) -> trees.Content:
    """Return the content of a facts file with its digest."""
    return {**content, "digest": container.facts_digest(content)}


@cache
def joined() -> bytes:
    """Return one report with the results of all: NVIDIA's reader takes half a second for each file."""
    named = [(PROGRAMS if source in FOREIGN else RECORDINGS) / f"{source}.ncu-rep" for source in (*RECORDED, *FOREIGN)]
    return join(named)


@cache
def facts(source: str) -> trees.Content:
    """Return the facts of one of our reports, sealed."""
    file = container.facts_path(RECORDINGS / f"{source}.ncu-rep")
    return sealed_facts(json.loads(file.read_text(encoding="utf-8")))


@cache
def profile_content(source: str) -> trees.Content:
    content: trees.Content = json.loads(profile(source).to_json())
    return content


def saved(source: str) -> bytes:
    """Return a saved profile, intact."""
    return profile(source).to_json().encode()


def manifest(source: str) -> trees.Content:
    """Return a run's manifest: of a kernel, or of a program with its rows."""
    name = Path(source).name
    if source in RECORDED[:2]:
        return {"kernel": name, "profiles": ["k.json"]}
    return {"kernel": name, "profiles": ["k.json", "w.json"], "columns": ["a", "b"], "rows": [["k.json", "w.json"]]}


def project_files() -> dict[str, bytes]:
    """Return what lies beside a project's settings."""
    names = ("my.cu", "reference.py")
    return {**{name: (EXAMPLE / name).read_bytes() for name in names}, EVIL: PROGRAM, "evil.py": MODULE}


@dataclass(frozen=True)
class Compiled:
    """A kernel as cubin and as PTX, and the options that launch it."""

    cubin: bytes
    ptx: bytes
    launch: tuple[str, ...]


@cache
def compiled(name: str) -> Compiled:
    """Return a kernel compiled now; raise EnvironmentLacking without a compiler."""
    if name == "own":
        return _compiled(EXAMPLE / "my.cu", ("-DSWIZZLE=0", "-lineinfo"), TYPED)
    if name == "warps":
        file = DATA / "emulate" / "warps.cu"
        entry = re.findall(r"^KERNEL\((\w+)\)", file.read_text(encoding="utf-8"), re.MULTILINE)[0]
        words = ("out=int32[256]:out", "in=int32[256]:random", "n=int32:256")
        return _compiled(file, ("-lineinfo",), ("--kernel", entry, "--grid", "2", "--block", "128", *_args(words)))
    family, kernel = catalog.shipped().named(name)
    problem = family.problem(SIZES[name])
    shape = Target(family, kernel, problem).launch
    grid, block = (",".join(map(str, sizes)) for sizes in (shape.grid, shape.block))
    words = tuple(
        f"{a.name}={a.dtype}[{','.join(a.shape)}]:{'out' if a.output else 'random'}"
        if a.shape
        else f"{a.dtype}:{a.value}"
        for a in family.arguments
    )
    sizes = tuple(part for item in problem.items() for part in ("--problem", "{}={}".format(*item)))
    shared = ("--shared", str(shape.shared))
    include = [part for folder in toolchain.include_folders(family) for part in ("-I", str(folder))]
    options = (*toolchain.options(family, kernel), *include)
    launch = ("--kernel", kernel.entry, "--grid", grid, "--block", block, *shared, *sizes, *_args(words))
    return _compiled(family.source(kernel), options, launch)


def _args(words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(part for word in words for part in ("--arg", word))


def _compiled(file: Path, options: tuple[str, ...], launch: tuple[str, ...]) -> Compiled:
    nvcc = Toolchain().find(NVCC)
    made = []
    with tempfile.TemporaryDirectory() as folder:
        for form in ("--cubin", "--ptx"):
            out = Path(folder, "kernel")
            subprocess.run(
                [nvcc, *options, "-arch", ARCH, form, str(file), "-o", str(out)], check=True, capture_output=True
            )
            made.append(out.read_bytes())
    return Compiled(made[0], made[1], launch)
