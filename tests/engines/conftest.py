"""Fixtures of the emulated engine's tests: a cubin, and the recorded stress kernels."""

import hashlib
import json
import lzma
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.emulate import run as emulator
from ncu_swizzle.emulate.code import Code
from ncu_swizzle.emulate.counts import Counts, Launch
from ncu_swizzle.engines import reader
from ncu_swizzle.kernels.limits import LaunchShape
from ncu_swizzle.kernels.toolchain import Toolchain
from ncu_swizzle.reports import container
from ncu_swizzle.reports.container import ReportResult
from ncu_swizzle.reports.model import Profile
from tests.support import fake_ncu
from tests.support.binaries import Parameter, launched
from tests.support.own_kernel import SHIFT, TURN_AND_BEYOND
from tests.support.places import DATA, PROGRAMS, RECORDED_STRESS, text
from tests.support.stand_in import Fake


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def binary(work: Path) -> Path:
    """Return a cubin of TURN_AND_BEYOND, compiled as own.cu."""
    return compiled(work, TURN_AND_BEYOND)


@pytest.fixture
def binary_folder(binary: Path) -> Path:
    return binary.parent


@pytest.fixture
def engine_sources(work: Path) -> Path:
    """Return a folder with the sources of tests/data/engines."""
    shutil.copytree(DATA / "engines", work, dirs_exist_ok=True)
    return work


@pytest.fixture
def tensor_memory(work: Path) -> Path:
    """Return a folder with product.cubin for sm_100a."""
    try:
        (work / "product.cubin").write_bytes(Toolchain().compile(text("engines/tensor_memory.cu"), [], "sm_100a", []))
    except NcuSwizzleError:
        pytest.skip("this nvcc does not compile for sm_100a")
    return work


def compiled(folder: Path, source: str, name: str = "own") -> Path:
    """Write a source into a folder, and its cubin with line tables."""
    (folder / f"{name}.cu").write_text(source, encoding="utf-8")
    unit = f'#include "{folder / name}.cu"\n'
    (folder / f"{name}.cubin").write_bytes(Toolchain().compile(unit, ["-lineinfo"], "sm_90", []))
    return folder / f"{name}.cubin"


@pytest.fixture
def shift(work: Path) -> Path:
    (work / "shift.cu").write_text(SHIFT, encoding="utf-8")
    return work


@pytest.fixture(scope="session")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Profile, ReportResult, dict[str, Any]]]:
    """Return each recorded kernel's profile, container result and facts, by name."""
    facts = json.loads((RECORDED_STRESS.parent / "facts.json").read_text(encoding="utf-8"))
    report = tmp_path_factory.mktemp("stress") / "stress.ncu-rep"
    report.write_bytes(lzma.decompress(RECORDED_STRESS.read_bytes()))
    assert hashlib.sha256(report.read_bytes()).hexdigest() == facts["report"]["sha256"]
    results = zip(facts["kernels"].items(), reader.read(report), container.inspect(report).results, strict=True)
    return {name: (profile, result, known) for (name, known), profile, result in results}


@pytest.fixture
def emulations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that gets the name of each kernel that is really emulated."""
    names: list[str] = []
    real = emulator.emulate

    def counted(code: Code, launch: Launch, **how: object) -> Counts:
        names.append(code.name)
        return real(code, launch, **how)

    monkeypatch.setattr(emulator, "emulate", counted)
    return names


@pytest.fixture
def emulated(tmp_path: Path) -> Callable[..., Profile]:
    def emulate(source: str, name: str, arch: str, values: list[Parameter], block: tuple[int, ...]) -> Profile:
        code = Toolchain().compile(source, ["-O3", "-std=c++17"], arch, [])
        file = tmp_path / f"{arch}.cubin"
        file.write_bytes(code)
        return launched(file, name, LaunchShape(grid=(4, 4), block=block), values).profile

    return emulate


@pytest.fixture
def driver_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    source = tmp_path / "driver.cu"
    source.write_text((PROGRAMS / "driver.cu").read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return source


@pytest.fixture
def fake(tmp_path: Path) -> Fake:
    program = fake_ncu.install(tmp_path / "bin" / "ncu")
    work = tmp_path / "work"
    work.mkdir()
    return Fake(program, work)
