"""Captured launches, emulated: what ncu counted on the H100, or unknown where the file has no memory; new builds."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from ncu_swizzle.base.errors import NotComparable, UnknownKernel, UsageError
from ncu_swizzle.capture.launches import CapturedParameter, Contents, open_launches
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.engines import module_image
from ncu_swizzle.engines.emulation import EmulationSettings
from ncu_swizzle.engines.replay import Replay
from ncu_swizzle.engines.settings import AUTO
from ncu_swizzle.kernels.toolchain import Toolchain
from ncu_swizzle.reports import pack
from tests.support import captures
from tests.support.captures import changed, forget, recorded
from tests.support.marks import NEEDS_ALL
from tests.support.places import PROGRAMS


@NEEDS_ALL
@pytest.mark.parametrize("name", captures.NAMES)
def test_every_count_is_ncu_s(name: str) -> None:
    with open_launches(recorded(name)) as file:
        launches, counted = file.manifest.launches, captures.counts(name)
        replay = Replay(file)
        compared = 0
        for launch, theirs in zip(launches, counted, strict=True):
            rows = {row.offset: row for row in replay.emulate(launch).counts.rows}
            for offset, (_, *numbers) in theirs.items():
                row = rows[offset]
                assert [row.executed, row.wavefronts, row.ideal] == numbers, (launch.index, row.sass)
                compared += 1
            others = [rows[offset] for offset in rows.keys() - theirs.keys()]
            assert not any(row.access and row.executed and row.wavefronts for row in others)
    assert compared > 3


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
    address = module_image.variables(cubin)["shift"][0]
    assert module_image.initial(cubin) == {address: b"\1\0\0\0"}
    unknown = module_image.captured_image(cubin, kernel, {})
    assert unknown.memory == {}
    ((first, end),) = unknown.unknown_constants[3]
    assert end - first == 1024
    filled = module_image.captured_image(cubin, kernel, {"shift": b"\7\0\0\0", "table": bytes(range(256)) * 4})
    assert filled.memory == {address: b"\7\0\0\0"}
    assert filled.constants[3][first:end] == bytes(range(256)) * 4
    assert filled.unknown_constants == {}
    other_size = module_image.captured_image(cubin, kernel, {"shift": b"\7", "table": b"\1"})
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
    image = module_image.captured_image(cubin, "use", contents)
    start = module_image.variables(cubin)["linked"][0]
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


# ---------------------------------------------------------------------------------------------- new builds


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
