"""Captured launches, emulated: what ncu counted, or unknown. Cached emulations: the second is the first."""

import dataclasses
import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ncu_swizzle.base import cache
from ncu_swizzle.base.errors import NotComparable, TimeLimit, UnknownKernel, UsageError
from ncu_swizzle.capture.launches import CapturedParameter, Contents, open_launches
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.emulate.counts import Counts
from ncu_swizzle.engines import emulated_launch, emulated_profile, emulation, replay
from ncu_swizzle.engines.emulation import Emulated, EmulationSettings
from ncu_swizzle.engines.replay import Replay, ReplaySettings
from ncu_swizzle.engines.settings import AUTO, Done, silent
from ncu_swizzle.kernels import naming
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.toolchain import ARCH, Toolchain
from ncu_swizzle.reports import pack
from tests.support import captures
from tests.support.captures import changed, forget, recorded
from tests.support.marks import NEEDS_ALL
from tests.support.own_kernel import FULL, description
from tests.support.places import PROGRAMS, text


@NEEDS_ALL
@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.long] * (n == "sorting")) for n in captures.NAMES])
def test_every_count_is_ncu_s(name: str) -> None:
    with open_launches(recorded(name)) as file:
        launches, counted = file.manifest.launches, captures.counts(name)
        compared = 0
        for launch, theirs in zip(launches, counted, strict=True):
            rows = {row.offset: row for row in Replay(file).emulate(launch).counts.rows}
            for offset, (_, *numbers) in theirs.items():
                row = rows[offset]
                assert [row.executed, row.wavefronts, row.ideal] == numbers, (launch.index, row.sass)
                compared += 1
            others = [rows[offset] for offset in rows.keys() - theirs.keys()]
            assert not any(row.access and row.executed and row.wavefronts for row in others)
    assert compared > 3


UNKNOWN = {"atomic operation", "data loaded", "shared memory holds"}


@pytest.mark.long
@NEEDS_ALL
@pytest.mark.parametrize("number", [pytest.param(n, marks=[pytest.mark.slow] * (n == 6)) for n in range(10)])
def test_pytorch_s_operators_are_counted_as_ncu_does_or_unknown_for_a_reason(number: int) -> None:
    theirs = captures.counts("torch")[number]
    with replay.opened(recorded("torch"), ReplaySettings()) as launches:
        rows = {row.offset: row for row in launches.emulate(number, silent).counts.rows}
    for offset, (_, *numbers) in theirs.items():
        row = rows[offset]
        known = [row.executed, row.wavefronts, row.ideal]
        assert known == numbers or (None in known and any(why in row.reason for why in UNKNOWN)), row.sass


@NEEDS_ALL
def test_a_captured_launch_with_conflicts_has_no_estimate_and_the_reason_is_a_finding() -> None:
    with open_launches(recorded("counting")) as file:
        launches = file.manifest.launches
        replay = Replay(file, EmulationSettings(cycles=AUTO))
        found = [replay.emulate(launch).profile for launch in launches]
        assert all(Replay(file).emulate(launch).profile.simulated is None for launch in launches)
    assert any(profile.total.excessive for profile in found)
    for profile in found:
        codes = [finding.code for finding in pack.findings(profile)]
        assert ("UN027" in codes) is bool(profile.total.excessive)


@NEEDS_ALL
def test_without_memory_what_depends_on_it_is_unknown() -> None:
    with open_launches(recorded("counting")) as file:
        launches = file.manifest.launches
        replay = Replay(file)
        whole = [replay.emulate(launch) for launch in launches]
        contents = {"contents": Contents(why="captured without --memory")}
        bare = [
            dataclasses.replace(
                launch,
                buffers=tuple(dataclasses.replace(part, **contents) for part in launch.buffers),
                variables=tuple(dataclasses.replace(part, **contents) for part in launch.variables),
            )
            for launch in launches
        ]
        for known, launch in zip(whole, bare, strict=True):
            emulated = replay.emulate(launch)
            assert not known.counts.unknown
            assert emulated.counts.unknown, "keys, shift and table decide the addresses"
            assert any("ncu-swizzle capture --memory keeps it" in note for note in emulated.profile.notes)
            rows = zip(known.counts.rows, emulated.counts.rows, strict=True)
            assert all(ours.wavefronts in (None, theirs.wavefronts) for theirs, ours in rows), "unknown, never another"


def test_what_a_cubin_initializes_is_not_believed() -> None:
    with open_launches(recorded("counting")) as file:
        cubin = Cubin(file.cubin(file.manifest.launches[1].cubin), "counting.cubin")
    kernel = "_Z7permutePKiPi"
    address = emulated_launch.variables(cubin)["shift"][0]
    assert emulated_launch.initial(cubin) == {address: b"\1\0\0\0"}
    unknown = emulated_launch.captured_image(cubin, kernel, {})
    assert unknown.memory == {}
    ((first, end),) = unknown.unknown_constants[3]
    assert end - first == 1024
    filled = emulated_launch.captured_image(cubin, kernel, {"shift": b"\7\0\0\0", "table": bytes(range(256)) * 4})
    assert filled.memory == {address: b"\7\0\0\0"}
    assert filled.constants[3][first:end] == bytes(range(256)) * 4
    assert filled.unknown_constants == {}
    other_size = emulated_launch.captured_image(cubin, kernel, {"shift": b"\7", "table": b"\1"})
    assert (other_size.memory, other_size.unknown_constants) == ({}, unknown.unknown_constants)


LINKED = """
__device__ int target = 3;
struct Linked { int before; int *pointer; int after; };
__device__ Linked linked = {1, &target, 2};
__constant__ Linked fixed = {1, &target, 2};
extern "C" __global__ void use(int *out) { out[0] = *linked.pointer + *fixed.pointer + linked.after + fixed.after; }
"""


@NEEDS_ALL
def test_relocated_words_of_a_variable_stay_unknown() -> None:
    """A pointer to a variable is, in another process, one into that process's module."""
    cubin = Cubin(Toolchain().compile(LINKED, [], "sm_90", []), "linked.cubin")
    contents = {"linked": b"\xaa" * 24, "fixed": b"\xbb" * 24}
    image = emulated_launch.captured_image(cubin, "use", contents)
    start = emulated_launch.variables(cubin)["linked"][0]
    assert image.memory == {start: b"\xaa" * 8, start + 16: b"\xaa" * 8}
    (offset,) = [symbol.offset for symbol in cubin.symbols if symbol.name == "fixed"]
    assert image.unknown_constants == {3: ((offset + 8, offset + 16),)}
    assert image.constants[3][offset + 16 : offset + 24] == b"\xbb" * 8


def test_a_launch_that_its_cubin_does_not_fit_and_an_address_of_the_emulator_s_own_are_refused() -> None:
    pointer = CapturedParameter(0, (0x8001_0000_1000).to_bytes(8, "little").hex())
    with open_launches(recorded("driver")) as file:
        launch = file.manifest.launches[0]
        changes: list[tuple[dict[str, Any], type[Exception], str]] = [
            ({"parameters": (pointer, *launch.parameters[1:])}, NotComparable, "was given the address 0x800100001000"),
            ({"parameters": launch.parameters[1:]}, UsageError, "does not have with these parameters"),
            ({"kernel": "other"}, UsageError, "does not have"),
        ]
        for change, error, said in changes:
            with pytest.raises(error, match=said):
                Replay(file).emulate(dataclasses.replace(launch, **change))


def rebuilt(source: Path, old: str = "", new: str = "", arch: str = "sm_90") -> tuple[Cubin, ...]:
    """Return a new build of the source with a text exchanged."""
    text = source.read_text(encoding="utf-8")
    assert old in text
    source.write_text(text.replace(old, new), encoding="utf-8")
    return (Cubin(Toolchain().compile(f'#include "{source}"\n', ["-lineinfo"], arch, []), "new.cubin"),)


BOTH_LISTS = (
    "captured with 8 bytes at 0, 1 bytes at 8, 12 bytes at 12, 8 bytes at 24.*"
    "in the new build 8 bytes at 0, 4 bytes at 8, 12 bytes at 12, 4 bytes at 24, 8 bytes at 32"
)


@pytest.mark.long
@NEEDS_ALL
@pytest.mark.parametrize(
    ("old", "new", "arch", "said"),
    [
        ("void columns(", "void rows(", "sm_90", "the new build has no kernel columns; it has rows"),
        ("char odd, Strides strides,", "int odd, Strides strides, int more,", "sm_90", BOTH_LISTS),
        ("", "", "sm_80", "the new build is for sm_80, the launch was captured on sm_90"),
    ],
)
def test_a_build_that_the_launch_does_not_fit_is_refused(
    driver_source: Path, old: str, new: str, arch: str, said: str
) -> None:
    with open_launches(recorded("driver")) as file, pytest.raises((UnknownKernel, UsageError), match=said):
        Replay(file, builds=rebuilt(driver_source, old, new, arch)).emulate(file.manifest.launches[0])


@pytest.mark.long
@NEEDS_ALL
def test_kernels_of_unnamed_namespaces_are_matched_by_their_full_name(tmp_path: Path) -> None:
    """Their mangled names hold a hash of the file's path."""
    source = tmp_path / "several.cu"
    source.write_text((PROGRAMS / "several.cu").read_text(encoding="utf-8"), encoding="utf-8")
    cubins = rebuilt(source)
    with open_launches(recorded("graph")) as file:
        last = file.manifest.launches[-1]
        assert last.kernel not in cubins[0].kernels
        emulated = Replay(file, builds=cubins).emulate(last)
    assert emulated.profile.kernel.name == "scale"


@NEEDS_ALL
def test_a_file_without_memory_is_still_replayed_as_far_as_it_goes(tmp_path: Path) -> None:
    file = changed(recorded("shapes"), tmp_path / "x.launches", forget)
    content = captures.entries(file)
    kept = {name: data for name, data in content.items() if not name.startswith("memory/")}
    manifest = json.loads(content[captures.MANIFEST])
    manifest["memory"] = {}
    captures.pack(file, {**kept, captures.MANIFEST: captures.sealed(manifest)})
    with open_launches(file) as opened:
        emulated = [Replay(opened).emulate(launch) for launch in opened.manifest.launches]
    assert not any(one.counts.unknown for one in emulated), "nothing of it depends on data"


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
    monkeypatch.setattr(emulated_profile, "code_digest", lambda patterns: "another emulator")
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
        emulation.emulate_cubin(target, code, "", EmulationSettings(budget_s=-1))
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
        settings = EmulationSettings(budget_s=limit_s)
        assert emulation.emulate_target(target, settings).profile.total.wavefronts
        assert len(entries()) == kept, "a check within the limit may have been cut off"


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
