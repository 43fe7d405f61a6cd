"""Reports of Triton's kernels: the callers of inlined functions come from Triton's cache, and are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from ncu_swizzle.base.errors import DamagedFile
from ncu_swizzle.base.files import write_json
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.cubin.lines import line_table
from ncu_swizzle.reports import container, layouts, python_kernels, reader, sanity, triton_cache
from ncu_swizzle.reports.model import Profile
from tests.support import triton_caches
from tests.support.places import PROGRAMS
from tests.support.triton_caches import CACHED, HELPERS, SOURCE

CUBIN = (CACHED / "turn_tiles.cubin").read_bytes()
LOAD, STORE = 16, 17  # lines of inlined_helpers.py, called in line 14 of inlined.py


def first(folder: Path) -> Profile:
    return reader.read(folder / "report.ncu-rep")[0]


def stacks(profile: Profile) -> set[tuple[tuple[str, int], ...]]:
    return {instruction.stack for instruction in profile.instructions if instruction.access}


def test_the_kernel_in_the_cache_has_the_machine_code_that_was_recorded() -> None:
    recorded = Cubin(container.inspect(PROGRAMS / "triton.ncu-rep").results[0].cubin, "recorded")
    assert Cubin(CUBIN, "cached").section(".text.turn_tiles") == recorded.section(".text.turn_tiles")


@pytest.mark.long
def test_without_the_cache_lines_are_the_innermost_and_that_is_said(folder: Path) -> None:
    profile = first(folder)
    assert stacks(profile) == {((HELPERS, STORE),)}
    (said,) = [aside for aside in sanity.asides(profile) if aside.startswith(sanity.INNERMOST)]
    assert "TRITON_CACHE_DIR" in said
    assert not any(sanity.INNERMOST in aside for aside in sanity.asides(reader.read(folder / "report.ncu-rep")[1]))
    assert not sanity.about_counts(profile), "counts can be judged"


@pytest.mark.long
@pytest.mark.parametrize(
    ("variable", "place"),
    [
        ("", ".triton/cache"),
        ("TRITON_CACHE_DIR", "here"),
        ("TRITON_HOME", ".triton/cache"),
        ("TORCHINDUCTOR_CACHE_DIR", "triton/0"),
    ],
)
def test_callers_come_from_the_cache(folder: Path, variable: str, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if variable:
        top = folder / "elsewhere"
        monkeypatch.setenv(variable, str(top if variable != "TRITON_CACHE_DIR" else top / place))
        triton_caches.fill(top / place)
    else:
        triton_caches.fill(folder / place)
    profile = first(folder)
    assert stacks(profile) == {((HELPERS, STORE), (SOURCE, 14))}
    lines = {instruction.stack for instruction in profile.instructions}
    assert {((HELPERS, 11), (SOURCE, 12)), ((HELPERS, 11), (SOURCE, 13)), ((HELPERS, LOAD), (SOURCE, 14))} <= lines
    assert not any(sanity.INNERMOST in aside for aside in sanity.asides(profile))


def test_every_instruction_keeps_the_line_that_the_cubin_names(folder: Path) -> None:
    triton_caches.fill(folder / "cache")
    own = line_table(CUBIN, "turn_tiles")
    cached = triton_cache._read(CUBIN, "turn_tiles", folder / "cache" / "KEY" / "turn_tiles.cubin").lines
    offsets = range(0, len(Cubin(CUBIN, "cached").section(".text.turn_tiles")), 16)
    assert [cached.stack(offset)[0] for offset in offsets] == [own.stack(offset)[0] for offset in offsets]
    assert {len(cached.stack(offset)) for offset in offsets} == {1, 2}


def test_the_cache_s_ttgir_explains_conflicts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    triton_caches.fill(folder / ".triton/cache")
    asked: list[tuple[str, bool]] = []

    def explained(profile: Profile, text: str, explicit: bool) -> Profile:
        asked.append((text, explicit))
        return profile

    monkeypatch.setattr(layouts, "explained", explained)
    first(folder)
    assert asked == [((CACHED / "turn_tiles.ttgir").read_text(encoding="utf-8"), False)]


@pytest.mark.long
@pytest.mark.parametrize("gone", [".ptx", ".cubin"])
def test_a_cache_without_the_kernel_changes_nothing(folder: Path, gone: str) -> None:
    triton_caches.fill(folder / ".triton/cache", gone)
    assert stacks(first(folder)) == {((HELPERS, STORE),)}


@pytest.mark.long
def test_another_cubin_of_the_same_size_is_not_taken(folder: Path) -> None:
    triton_caches.fill(folder / ".triton/cache")
    file = folder / ".triton/cache/KEY/turn_tiles.cubin"
    file.write_bytes(bytes([*CUBIN[:-1], CUBIN[-1] ^ 1]))
    assert stacks(first(folder)) == {((HELPERS, STORE),)}


def test_a_kernel_under_another_file_s_name_is_found(folder: Path) -> None:
    kernel = triton_caches.fill(folder / ".triton/cache") / "KEY"
    for file in kernel.iterdir():
        file.rename(file.with_name(f"long_name{file.suffix}"))
    assert stacks(first(folder)) == {((HELPERS, STORE), (SOURCE, 14))}


def test_ptx_of_other_lines_is_not_believed(folder: Path) -> None:
    kernel = triton_caches.fill(folder / ".triton/cache") / "KEY"
    text = (kernel / "turn_tiles.ptx").read_text(encoding="utf-8")
    (kernel / "turn_tiles.ptx").write_text(text.replace(f".loc\t2 {STORE} ", ".loc\t2 5 "), encoding="utf-8")
    assert stacks(first(folder)) == {((HELPERS, STORE),)}


@pytest.mark.long
def test_what_the_facts_keep_needs_no_cache(folder: Path) -> None:
    report = folder / "report.ncu-rep"
    cache = triton_caches.fill(folder / ".triton/cache")
    kernels = python_kernels.known(container.inspect(report).results)
    write_json(container.facts_path(report), python_kernels.as_facts(kernels))
    container.seal(report)
    before = reader.read(report)
    cache.rename(folder / "gone")
    assert reader.read(report) == before
    assert stacks(before[0]) == {((HELPERS, STORE), (SOURCE, 14))}


def test_facts_with_callers_of_another_form_are_damaged(folder: Path) -> None:
    write_json(container.facts_path(folder / "report.ncu-rep"), {"callers": {"digest": [[0, ["file"]]]}})
    with pytest.raises(DamagedFile, match="callers"):
        first(folder)
