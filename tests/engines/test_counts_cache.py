"""Cached cubins and emulations: the second answer is the first, anything that decides it makes a new one."""

import os
import re
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ncu_swizzle.base import cache
from ncu_swizzle.base.errors import TimeLimit
from ncu_swizzle.emulate.counts import Counts
from ncu_swizzle.engines import emulated_profile, emulation
from ncu_swizzle.engines.emulation import Emulated, EmulationSettings
from ncu_swizzle.engines.settings import Done
from ncu_swizzle.kernels import naming
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.limits import LaunchShape
from ncu_swizzle.kernels.toolchain import ARCH, Toolchain
from ncu_swizzle.reports.model import Profile
from tests.support.binaries import launched
from tests.support.marks import NEEDS_ALL
from tests.support.own_kernel import FULL, description
from tests.support.places import text

HISTOGRAM, PTX = text("engines/histogram.cu"), text("engines/stride.ptx")
COUNTED = description(
    FULL, entry="fn", grid="1", block="128", problem={}, args=("x=uint32[128]:iota", "y=uint32[128]:out")
)


def histogram(folder: Path, x: str = "iota") -> Target:
    """Return a kernel whose conflicts depend on a header and on the content of a buffer."""
    (folder / "my.cu").write_text(HISTOGRAM, encoding="utf-8")
    if not (folder / "size.cuh").exists():
        (folder / "size.cuh").write_text("#define BINS 1024\n", encoding="utf-8")
    given = description(COUNTED, args=(f"x=uint32[128]:{x}", "y=uint32[128]:out"))
    family = naming.family_of(folder / "my.cu", given, ())
    return Target(family, family.kernels[0], family.problem({}))


def emulate(target: Target, **how: object) -> Emulated:
    return emulation.emulate_target(target, EmulationSettings(**how))


def plain(counts: Counts) -> dict[str, object]:
    """Return everything but the arrays."""
    return {**vars(counts), "requests": [(access.op, access.complete) for access in counts.requests.values()]}


def entries() -> list[Path]:
    folder = cache.folder()
    assert folder is not None
    return sorted((folder / "emulations").glob("*"))


@pytest.mark.long
@NEEDS_ALL
@pytest.mark.parametrize("content", ["iota", "random"])  # of what the histogram's addresses depend on: known, or not
def test_an_unchanged_kernel_is_emulated_once_and_comes_back_alike_down_to_the_types(
    content: str, work: Path, emulations: list[str]
) -> None:
    target, percents = histogram(work, content), []
    first = emulate(target)
    again = emulation.emulate_target(target, EmulationSettings(), percents.append)
    assert (len(emulations), percents) == (1, [Done(1)])
    assert replace(again.profile, when=first.profile.when) == first.profile
    assert plain(again.counts) == plain(first.counts)
    assert bool(first.counts.unknown) == (first.profile.total.wavefronts is None) == (content == "random")
    assert again.counts.requests.keys() == first.counts.requests.keys() != set()
    for offset, access in first.counts.requests.items():
        for name in ("addresses", "active", "times"):
            before, after = getattr(access, name), getattr(again.counts.requests[offset], name)
            assert (before.dtype, after.flags.writeable) == (after.dtype, True)
            assert np.array_equal(before, after)
    assert emulated_profile.pack(again.counts) == emulated_profile.pack(first.counts)


@pytest.mark.long
@NEEDS_ALL
def test_whatever_decides_the_counts_makes_a_new_emulation(
    work: Path, emulations: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = emulate(histogram(work)).profile.total.wavefronts
    (work / "size.cuh").write_text("#define BINS 992\n", encoding="utf-8")
    assert emulate(histogram(work)).profile.total.wavefronts != first, "a header"
    np.save(work / "x.npy", np.arange(128, dtype=np.uint32) * 2)
    same = emulate(histogram(work, "x.npy")).profile.total.wavefronts
    os.utime(work / "x.npy", (0, 0))
    emulate(histogram(work, "x.npy"))
    assert len(emulations) == 3, "the content of a file counts, not its date"
    np.save(work / "x.npy", np.zeros(128, np.uint32))
    assert emulate(histogram(work, "x.npy")).profile.total.wavefronts != same
    emulate(histogram(work, "iota%7"))
    emulate(histogram(work), exhaustive=True)
    assert len(emulations) == 6
    monkeypatch.setattr(emulated_profile, "_code_digest", lambda patterns: "another emulator")
    emulate(histogram(work))
    assert len(emulations) == 7
    version = Toolchain.version
    monkeypatch.setattr(Toolchain, "version", lambda self, tool="nvcc": version(self, tool) + tool[:5])
    emulate(histogram(work))
    assert len(emulations) == 8


@NEEDS_ALL
def test_an_emulation_that_ran_out_of_time_is_not_kept(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Toolchain, "_limit_s", lambda self, tool, size: 60)  # of the tools, not of the emulation
    target = histogram(work)
    code = emulate(target).binary.cubin.data
    for file in entries():
        file.unlink()
    with pytest.raises(TimeLimit):
        emulation.emulate_cubin(target, code, "", EmulationSettings(Toolchain(timeout_s=-1)))
    assert entries() == []
    assert emulate(target).profile.total.wavefronts
    assert len(entries()) == 1


@pytest.mark.long
@NEEDS_ALL
def test_what_took_longer_than_the_limit_or_is_large_is_not_kept(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Clock:
        seconds = 0

        def thread_time(self) -> int:
            self.seconds += 31
            return self.seconds

    monkeypatch.setattr(emulation, "time", Clock())
    target = histogram(work)
    for limit_s, most_bytes, kept in ((30, emulated_profile.MOST_BYTES, 0), (31, 10, 0), (31, 1 << 20, 1)):
        monkeypatch.setattr(emulated_profile, "MOST_BYTES", most_bytes)
        settings = EmulationSettings(Toolchain(timeout_s=limit_s))
        assert emulation.emulate_target(target, settings).profile.total.wavefronts
        assert len(entries()) == kept, "a check within the limit may have been cut off"


# ---------------------------------------------------------------------------------------------- without the cache


@pytest.mark.long
@NEEDS_ALL
def test_without_the_cache_nothing_is_read_or_kept(work: Path, emulations: list[str]) -> None:
    target = histogram(work)
    emulate(target, cached=False)
    assert not (work / "cache").exists()
    emulate(target)
    kept = {file: file.read_bytes() for file in (work / "cache").rglob("*") if file.is_file()}
    assert len(kept) == 3, "the cubin, its disassembly, and the counts"
    emulate(target, cached=False)
    assert len(emulations) == 3
    assert kept == {file: file.read_bytes() for file in (work / "cache").rglob("*") if file.is_file()}


@pytest.mark.long
@NEEDS_ALL
def test_ptx_is_assembled_once(work: Path, monkeypatch: pytest.MonkeyPatch, emulations: list[str]) -> None:
    assembled: list[bytes] = []
    real = Toolchain.assemble
    monkeypatch.setattr(
        Toolchain, "assemble", lambda self, ptx, *how: (assembled.append(ptx), real(self, ptx, *how))[1]
    )

    def profiled(text: str, **how: bool) -> Profile:
        (work / "k.ptx").write_text(text, encoding="utf-8")
        shape = LaunchShape(grid=(1,), block=(32,))
        return replace(launched(work / "k.ptx", "", shape, [struct.pack("<i", 4)], **how).profile, when="")

    assert profiled(PTX) == profiled(PTX)
    assert (len(assembled), len(emulations)) == (1, 1)
    assert profiled(PTX, cached=False) == profiled(PTX)
    assert (len(assembled), len(emulations)) == (2, 2)
    profiled(PTX.replace("4096", "8192"))
    assert len(assembled) == 3


@NEEDS_ALL
def test_a_source_gives_the_same_cubin_in_any_temporary_folder(work: Path) -> None:
    (work / "a.cu").write_text(
        "__constant__ int table[4];\nnamespace { __device__ int state[8]; }\n"
        "static __device__ __noinline__ int looked_up(int x) { return x * table[x]; }\n"
        "__global__ void fn(int* x) { state[threadIdx.x & 7] += looked_up(x[0]); }\n",
        encoding="utf-8",
    )
    unit = f'#include "{work / "a.cu"}"\n'
    first, again = (Toolchain().compile(unit, ["-lineinfo"], ARCH, []) for _ in range(2))
    assert len(set(re.findall(rb"(?:_INTERNAL_|_GLOBAL__N__)[0-9a-f]{8}", first))) == 2, "else this shows nothing"
    assert first == again
