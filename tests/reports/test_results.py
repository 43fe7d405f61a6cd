"""What is read from a report's bytes is what NVIDIA's module reads from them."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ncu_swizzle.reports import container, results
from ncu_swizzle.reports.model import STALLED
from ncu_swizzle.reports.results import ModuleSource
from tests.support import nvidia_says
from tests.support.corpus.frames import field
from tests.support.places import PROGRAMS, RECORDINGS
from tests.support.recordings import REPORTS
from tests.support.reports import join

pytestmark = pytest.mark.xdist_group("nvidia")  # its module is asked once


def same(one: object, other: object) -> bool:
    return str(one) == str(other)  # NaN is itself here


def is_per_instruction(counts: dict[str, float]) -> bool:
    """Whether whole numbers belong to addresses; those of other metrics belong to opcodes, or to units of the GPU."""
    return all(count == int(count) for count in counts.values()) and all(int(address) >= 1 << 32 for address in counts)


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.stem)
def test_every_number_and_every_word_is_the_modules(report: Path, nvidia: dict[Path, list[dict[str, Any]]]) -> None:
    found = container.inspect(report).results
    assert len(found) == len(nvidia[report])
    for ours, theirs in zip(found, nvidia[report], strict=True):
        assert {ours.name, ours.function, ours.demangled} == set(theirs["names"])
        assert ours.metrics.keys() == theirs["metrics"].keys()
        assert all(same(value, theirs["metrics"][name]) for name, value in ours.metrics.items())
        counted = {name: counts for name, counts in theirs["counts"].items() if is_per_instruction(counts)}
        for name, counts in counted.items():
            assert {str(address): count for address, count in ours.per_instruction(name).items()} == counts
        assert dict(ours.source.files) == theirs["files"]
        assert [[one.rule, one.kind, one.title, one.message] for one in ours.findings] == theirs["findings"]


def test_one_table_of_names_serves_the_whole_file(tmp_path: Path) -> None:
    """Names are numbers into the tables of all blocks together, which only shows where two tables differ."""
    joined = tmp_path / "joined.ncu-rep"
    joined.write_bytes(join([RECORDINGS / "tma" / "tma-128.ncu-rep", PROGRAMS / "basic.ncu-rep"]))
    (theirs,) = nvidia_says.of([joined]).values()
    ours = container.inspect(joined).results
    assert [one.metrics.keys() for one in ours] == [one["metrics"].keys() for one in theirs]


def test_a_metric_has_one_unit_in_every_report(nvidia: dict[Path, list[dict[str, Any]]]) -> None:
    """Units are kept by the metrics' names alone; those of stalls are not asked, they vary from run to run."""
    units: dict[str, set[str]] = {}
    for result in (result for found in nvidia.values() for result in found):
        for name, unit in result["units"].items():
            units.setdefault(name, set()).add(unit)
    assert not {name: found for name, found in units.items() if len(found) > 1 and not name.startswith(STALLED)}


def test_a_function_begins_where_the_report_says(report_file: Path) -> None:
    (result,) = container.inspect(report_file).results
    assert result.address == min(result.per_instruction("inst_executed"))
    for result in container.inspect(PROGRAMS / "several.ncu-rep").results:
        assert result.address == min(result.per_instruction("inst_executed"))
        assert result.cubin.startswith(b"\x7fELF"), "ncu writes it once, with the first result"


def test_what_is_new_of_a_module_is_added() -> None:
    first = ModuleSource(cubin=b"cubin", target=(9, 90, 1), files={"a.cu": "text"}, functions={"f": 16})
    assert first.updated(ModuleSource(cubin=b"", target=(0, 0, 0), files={}, functions={"g": 32})) == replace(
        first, functions={"f": 16, "g": 32}
    )


# ---------------------------------------------------------------------------------------------- elements of a metric

WIDE, NARROW, DOUBLE = 5, 4, 3  # fields of ProfileMetricValue


def elements(counts: dict[int, int], kind: int) -> bytes:
    return b"".join(
        field(3, 2, field(1, 2, field(WIDE, 0, address)) + field(2, 2, field(kind, 0, count)))
        for address, count in counts.items()
    )


Counts = st.dictionaries(st.integers(0, (1 << 64) - 1), st.integers(0, (1 << 32) - 1), max_size=40)


@given(Counts, st.sampled_from([WIDE, NARROW]), st.booleans())
@example({0x7F0000001000: 0, 0x7F0000001010: 1 << 31}, WIDE, True)
def test_elements_are_read_as_they_were_written(counts: dict[int, int], kind: int, category: bool) -> None:
    written = elements(counts, kind) + (field(4, 0, 1) if category else b"")
    assert results._by_address(memoryview(written)) == counts


def test_elements_of_another_form_are_read_one_by_one() -> None:
    float64 = field(DOUBLE, 1, b"\0\0\0\0\0\0\x59\x40")
    written = (
        elements({16: 7}, WIDE)
        + field(3, 2, field(1, 2, field(WIDE, 0, 32)) + field(2, 2, float64))
        + elements({48: 9}, WIDE)
    )
    assert results._by_address(memoryview(written)) == {16: 7, 32: 100, 48: 9}


def test_elements_without_an_address_belong_to_no_instruction() -> None:
    assert results._by_address(memoryview(field(3, 2, field(2, 2, field(WIDE, 0, 7))))) == {}


@given(Counts, st.data())
def test_damaged_elements_are_refused_or_read(counts: dict[int, int], data: st.DataObject) -> None:
    written = bytearray(elements({**counts, 16: 5}, WIDE))
    place = data.draw(st.integers(0, len(written) - 1))
    written[place] ^= 1 << data.draw(st.integers(0, 7))
    try:
        found = results._by_address(memoryview(bytes(written)))
    except (ValueError, IndexError, struct.error):
        return
    assert all(isinstance(count, int) for count in found.values())
