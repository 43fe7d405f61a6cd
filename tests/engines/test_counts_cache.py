"""Cached cubins and emulations: the second answer is the first, anything that decides it makes a new one."""

import base64
import gzip
import hashlib
import re
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ncu_swizzle.base import cache, paths
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
from tests.support import process
from tests.support.binaries import launched
from tests.support.marks import NEEDS_ALL
from tests.support.own_kernel import FULL, TYPED, description, own
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


# ---------------------------------------------------------------------------------------------- bytes and back


@pytest.mark.long
@NEEDS_ALL
def test_what_was_packed_is_unpacked_alike_down_to_the_types(work: Path) -> None:
    counts = emulate(histogram(work)).counts
    again = emulated_profile.unpack(Counts, emulated_profile.pack(counts))
    assert plain(again) == plain(counts)
    assert again.requests.keys() == counts.requests.keys() != set()
    for offset, access in counts.requests.items():
        for name in ("addresses", "active", "times"):
            before, after = getattr(access, name), getattr(again.requests[offset], name)
            assert before.dtype == after.dtype
            assert np.array_equal(before, after)
            assert after.flags.writeable
    assert emulated_profile.pack(again) == emulated_profile.pack(counts)


# ---------------------------------------------------------------------------------------------- what is kept


@pytest.mark.long
@NEEDS_ALL
def test_an_unchanged_kernel_is_emulated_once(work: Path, emulations: list[str]) -> None:
    target, percents = histogram(work), []
    first = emulate(target)
    again = emulation.emulate_target(target, EmulationSettings(), percents.append)
    assert len(emulations) == 1
    assert percents == [Done(1)]
    assert replace(again.profile, when=first.profile.when) == first.profile
    assert plain(again.counts) == plain(first.counts)


@pytest.mark.long
@NEEDS_ALL
def test_whatever_decides_the_counts_makes_a_new_emulation(
    work: Path, emulations: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = emulate(histogram(work)).profile.total.wavefronts
    (work / "size.cuh").write_text("#define BINS 992\n", encoding="utf-8")
    assert emulate(histogram(work)).profile.total.wavefronts != first, "a header"
    emulate(histogram(work, "iota%7"))
    emulate(histogram(work), exhaustive=True)
    assert len(emulations) == 4
    monkeypatch.setattr(emulated_profile, "_code_digest", lambda: "another emulator")
    emulate(histogram(work))
    assert len(emulations) == 5
    version = Toolchain.version
    monkeypatch.setattr(Toolchain, "version", lambda self, tool="nvcc": version(self, tool) + tool[:5])
    emulate(histogram(work))
    assert len(emulations) == 6


@pytest.mark.long
@NEEDS_ALL
def test_the_content_of_a_file_counts_not_its_date(work: Path, emulations: list[str]) -> None:
    np.save(work / "x.npy", np.arange(128, dtype=np.uint32))
    first = emulate(histogram(work, "x.npy"))
    np.save(work / "x.npy", np.arange(128, dtype=np.uint32))
    emulate(histogram(work, "x.npy"))
    assert len(emulations) == 1
    np.save(work / "x.npy", np.zeros(128, np.uint32))
    assert emulate(histogram(work, "x.npy")).profile.total.wavefronts != first.profile.total.wavefronts


@pytest.mark.long
@NEEDS_ALL
def test_what_is_unknown_stays_so_with_its_reason(work: Path, emulations: list[str]) -> None:
    first, again = (emulate(histogram(work, "random")) for _ in range(2))
    assert len(emulations) == 1
    assert first.profile.total.wavefronts is None
    assert first.profile.notes == again.profile.notes
    assert [row.reason for row in first.counts.unknown] == [row.reason for row in again.counts.unknown] != []


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
def test_what_took_longer_than_the_limit_is_not_kept_either(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Clock:
        seconds = 0

        def thread_time(self) -> int:
            self.seconds += 31
            return self.seconds

    monkeypatch.setattr(emulation, "time", Clock())
    target = histogram(work)
    assert emulation.emulate_target(target, EmulationSettings(Toolchain(timeout_s=30))).profile.total.wavefronts
    assert entries() == [], "a check within it may have been cut off"
    emulation.emulate_target(target, EmulationSettings(Toolchain(timeout_s=31)))
    assert len(entries()) == 1


@pytest.mark.long
@NEEDS_ALL
def test_large_emulations_are_left_out(work: Path, monkeypatch: pytest.MonkeyPatch, emulations: list[str]) -> None:
    monkeypatch.setattr(emulated_profile, "MOST_BYTES", 10)
    emulate(histogram(work))
    assert entries() == []
    emulate(histogram(work))
    assert len(emulations) == 2


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
    assembled: list[str] = []
    real = Toolchain.assemble

    def assemble(self: Toolchain, ptx: bytes, name: str, arch: str = "") -> bytes:
        assembled.append(name)
        return real(self, ptx, name, arch)

    monkeypatch.setattr(Toolchain, "assemble", assemble)
    (work / "k.ptx").write_text(PTX, encoding="utf-8")

    def profiled(**how: bool) -> Profile:
        return launched(work / "k.ptx", "", LaunchShape(grid=(1,), block=(32,)), [struct.pack("<i", 4)], **how).profile

    first, again = (profiled() for _ in range(2))
    assert (len(assembled), len(emulations)) == (1, 1)
    assert replace(again, when=first.when) == first
    fresh = profiled(cached=False)
    assert (len(assembled), len(emulations)) == (2, 2)
    assert replace(fresh, when=first.when) == first
    (work / "k.ptx").write_text(PTX.replace("4096", "8192"), encoding="utf-8")
    profiled()
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


# ---------------------------------------------------------------------------------------------- the commands


def outputs(folder: Path) -> dict[str, str]:
    """Return the digests of a run's files, without dates."""
    date = re.compile(rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\+00:00)?|sha256:[0-9a-f]{64}")
    packed = re.compile(rb"H4sI[A-Za-z0-9+/=]+")  # gzip in Base64, which a page embeds
    digests = {}
    for file in sorted(folder.iterdir()):
        content = packed.sub(lambda data: gzip.decompress(base64.b64decode(data[0])), file.read_bytes())
        digests[file.name] = hashlib.sha256(date.sub(b"", content)).hexdigest()
    return digests


@NEEDS_ALL
def test_a_cached_run_writes_and_prints_what_the_first_did(work: Path) -> None:
    own(work)
    command = ("profile", "my.cu", "--kernel", "transpose", *TYPED, "--engine", "emulated")
    first, second, fresh = (
        process.run(*command, "-o", name, *more, "--json", "-", env=paths.child_environment())
        for name, more in (("first", ()), ("second", ()), ("fresh", ("--no-cache",)))
    )
    assert first.returncode == second.returncode == fresh.returncode == 0, first.stderr
    written = outputs(work / "first")
    assert {"report.html", "run.json", "transpose.json", "transpose.cubin"} <= written.keys(), written
    assert written == outputs(work / "second") == outputs(work / "fresh")
