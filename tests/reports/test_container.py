"""A .ncu-rep's bytes: what is read from them is what NVIDIA's module reads, and damage is noticed that it does not."""

import contextlib
import json
import random
import shutil
import struct
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import strategies as st

from bench.corpus import bytewise, frames, originals
from bench.corpus.frames import field
from ncu_swizzle.base import cache
from ncu_swizzle.base.errors import BadFile, DamagedFile
from ncu_swizzle.reports import container, reader, remarks, results
from ncu_swizzle.reports.model import STALLED
from tests.support import nvidia_says
from tests.support.places import PROGRAMS, RECORDINGS
from tests.support.properties import chances, examples, holds
from tests.support.recordings import REPORTS
from tests.support.reports import join

Nvidia = dict[Path, list[dict[str, Any]]]
INVALID = (ValueError, IndexError, struct.error)  # what `protobuf` says that it raises


# ------------------------------------------------------------------------------------- beside NVIDIA's module


@pytest.mark.long
@pytest.mark.parametrize("set_of_sections", ["recorded attention", "programs"])
def test_every_number_and_every_word_is_the_modules(set_of_sections: str, nvidia: Nvidia) -> None:
    ours = [report for report in REPORTS if (report.parent == PROGRAMS) == (set_of_sections == "programs")]
    for report in ours:
        read = container.inspect(report).results
        assert len(read) == len(nvidia[report]), report
        for one, theirs in zip(read, nvidia[report], strict=True):
            assert {one.name, one.function, one.demangled} == set(theirs["names"]), report
            assert one.metrics.keys() == theirs["metrics"].keys(), report
            differing = [name for name, value in one.metrics.items() if str(value) != str(theirs["metrics"][name])]
            assert differing == [], report  # as text: NaN is itself
            for name, counts in theirs["counts"].items():
                whole = all(count == int(count) for count in counts.values())
                if whole and all(int(address) >= 1 << 32 for address in counts):  # others are of opcodes, or of units
                    assert {str(pc): count for pc, count in one.per_instruction(name).items()} == counts, (report, name)
            assert dict(one.source.files) == theirs["files"], report
            findings = [[finding.rule, finding.kind, finding.title, finding.message] for finding in one.findings]
            assert findings == theirs["findings"], report


@pytest.mark.long
def test_a_metric_has_one_unit_in_every_report(nvidia: Nvidia) -> None:
    """Units are kept by the metrics' names alone; those of stalls are not asked, they vary from run to run."""
    units: dict[str, set[str]] = {}
    for result in (result for answers in nvidia.values() for result in answers):
        for name, unit in result["units"].items():
            units.setdefault(name, set()).add(unit)
    assert not {name: several for name, several in units.items() if len(several) > 1 and not name.startswith(STALLED)}


def test_one_table_of_names_serves_the_whole_file(tmp_path: Path) -> None:
    """Names are numbers into the tables of all blocks together, which only shows where two tables differ."""
    joined = tmp_path / "joined.ncu-rep"
    joined.write_bytes(join([RECORDINGS / "tma" / "tma-128.ncu-rep", PROGRAMS / "basic.ncu-rep"]))
    (theirs,) = nvidia_says.of([joined]).values()
    ours = container.inspect(joined).results
    assert [one.metrics.keys() for one in ours] == [one["metrics"].keys() for one in theirs]


def test_a_report_tells_its_session_and_where_its_functions_begin(report_file: Path) -> None:
    report = container.inspect(report_file)
    (result,) = report.results
    assert (result.function, result.clocks_locked) == ("kernel2", False)
    assert report.ncu.startswith("2025.3.1")
    assert report.created.startswith("2026-")
    assert "--section SwizzleConflicts" in report.command
    for one in (result, *container.inspect(PROGRAMS / "several.ncu-rep").results):
        assert one.address == min(one.per_instruction("inst_executed"))
        assert one.cubin.startswith(b"\x7fELF"), "ncu writes it once, with the first result"


# ------------------------------------------------------------------------------------- damaged files


def test_every_truncation_inside_a_block_and_bytes_after_the_end_are_noticed(report_file: Path, tmp_path: Path) -> None:
    intact, damaged = report_file.read_bytes(), tmp_path / "damaged.ncu-rep"
    sizes = random.Random(7).sample(range(len(container.MAGIC), len(intact)), 300)
    for content in (intact + b"\0\0\0\1", *(intact[:size] for size in sizes)):
        damaged.write_bytes(content)
        with pytest.raises(DamagedFile, match="is damaged"):
            container.inspect(damaged)


def test_what_is_not_a_report_is_named(report_file: Path, tmp_path: Path) -> None:
    file = tmp_path / "foreign.ncu-rep"
    for content in (b"", b"NV", b"{}", b"\x7fELF"):
        file.write_bytes(content)
        with pytest.raises(BadFile, match="is not an Nsight Compute report"):
            container.inspect(file)
    for absent, said in ((tmp_path / "nowhere.ncu-rep", "does not exist"), (tmp_path, "cannot be read")):
        with pytest.raises(BadFile, match=said):
            container.inspect(absent)
    data = report_file.read_bytes()
    header = 8 + int.from_bytes(data[4:8], "little")
    file.write_bytes(data[: header + 4 + int.from_bytes(data[header : header + 4], "little")])
    with pytest.raises(BadFile, match="has no kernel"):
        reader.read(file)


# ------------------------------------------------------------------------------------- facts beside a report


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """Return a copy of a small report without facts."""
    report = tmp_path / "tma-128.ncu-rep"
    report.write_bytes(originals.report("tma/tma-128"))
    return report


def facts_of(copy: Path, changes: dict[str, Any]) -> None:
    """Write the recording's facts beside its copy, changed."""
    recorded = container.facts_path(RECORDINGS / "tma" / "tma-128.ncu-rep")
    content = json.loads(recorded.read_text(encoding="utf-8"))
    container.facts_path(copy).write_text(json.dumps({**content, **changes}), encoding="utf-8")


def test_facts_belong_to_the_bytes_of_their_report(copied: Path, report_file: Path, tmp_path: Path) -> None:
    (profile,) = reader.read(copied)
    assert (profile.kernel.name, profile.problem) == ("tma_128", {}), "a report of other origin reads without facts"
    intact = report_file.read_bytes()
    facts = json.loads(container.facts_path(report_file).read_text(encoding="utf-8"))
    assert facts["report"] == {"sha256": cache.sha256(intact), "bytes": len(intact)}
    flipped = tmp_path / report_file.name
    shutil.copy(container.facts_path(report_file), tmp_path)
    flipped.write_bytes(intact[:200_000] + bytes([intact[200_000] ^ 1]) + intact[200_001:])
    with pytest.raises(DamagedFile, match="SHA-256"):
        reader.read(flipped)


def test_facts_that_make_no_sense_are_refused(copied: Path) -> None:
    for changes, words in (
        ({"problem": {"n": "64"}}, "problem.n is '64'"),
        ({"problem": {"n": -1}}, "problem.n is -1"),
        ({"problem": {"n": 1 << 64}}, "problem.n is 18446744073709551616"),
        ({"sources": ["a.cu"]}, "sources is"),
        ({"machine": 3}, "machine is 3"),
        ({"errors": {"tma-128": {"out": "small"}}}, "errors.tma-128.out"),
        ({"errors": {"tma-128": {"out": -0.5}}}, "errors.tma-128.out"),
        ({"report": {}}, "lacks the report's SHA-256"),
        ({"digest": "sha256:0"}, "changed after it was written"),
    ):
        facts_of(copied, changes)
        with pytest.raises(DamagedFile, match="is damaged") as refused:
            reader.read(copied)
        assert words in str(refused.value)
    container.facts_path(copied).write_text('{"kernel": "ker', encoding="utf-8")
    with pytest.raises(DamagedFile, match="is damaged"):
        reader.read(copied)


def test_sealed_facts_keep_what_ncu_warned_of(copied: Path) -> None:
    facts_of(copied, {})
    container.seal(copied, ["ncu could not read 3 metrics: a, b, c."])
    (profile,) = reader.read(copied)
    notes = [finding.message for finding in profile.findings if finding.rule == remarks.NOTE]
    assert notes == ["ncu could not read 3 metrics: a, b, c."]
    content = container.facts_path(copied).read_text(encoding="utf-8")
    container.facts_path(copied).write_text(content.replace("tma-128", "tma-129"), encoding="utf-8")
    with pytest.raises(DamagedFile, match="was changed after it was written"):
        reader.read(copied)


# ------------------------------------------------------------------------------------- any bytes at all

NUMBERS = st.integers(0, 2**64 - 1)
FIELDS = st.lists(
    st.one_of(
        st.tuples(st.integers(1, 2**29 - 1), st.just(0), NUMBERS),
        st.tuples(st.integers(1, 40), st.just(1), st.binary(min_size=8, max_size=8)),
        st.tuples(st.integers(1, 40), st.just(2), st.binary(max_size=40)),
        st.tuples(st.integers(1, 40), st.just(5), st.binary(min_size=4, max_size=4)),
    ),
    max_size=12,
)


@examples
def test_a_message_is_read_as_it_was_written(examples: int) -> None:
    def check(parts: list[frames.Field], more: bytes) -> None:
        written = frames.put_together(parts)
        assert frames.taken_apart(written) == parts
        message = results.Message(memoryview(written))
        for number, _, value in {part[0]: part for part in parts}.values():
            if isinstance(value, int):
                assert message.number(number) == value
                assert results.varint(frames.varint(value) + more, 0) == (value, len(frames.varint(value)))

    holds(examples, check, FIELDS, st.binary(max_size=4))


def read_or_refused(data: bytes) -> container.Container | None:
    """Return what the container holds; None if it is refused. Counts are decoded as a reader of it would."""
    try:
        whole = container.container_of(data, "k.ncu-rep")
    except (BadFile, DamagedFile):
        return None
    for result in whole.results:
        for name in result.lists:
            with contextlib.suppress(*INVALID, OverflowError):
                assert all(isinstance(count, int) for count in result.per_instruction(name).values())
    return whole


@pytest.mark.long
@examples
def test_a_damaged_container_and_one_with_a_hostile_field_are_read_or_refused(examples: int) -> None:
    intact, foreign = originals.report("vectors/vectors-4-stride"), frames.Report.taken_apart(originals.report("basic"))

    def damaged(name: str, chance: Random) -> None:
        read_or_refused(bytewise.BINARY[name](intact, intact, chance))

    def hostile(chance: Random) -> None:
        changed = foreign.changed(lambda message: frames.with_hostile_field(message, chance), chance)
        read_or_refused(changed.put_together())

    holds(examples, damaged, st.sampled_from(list(bytewise.BINARY)), chances)
    holds(examples // 4, hostile, chances)


# ------------------------------------------------------------------------------------- elements of a metric

WIDE, NARROW, DOUBLE = 5, 4, 3  # fields of ProfileMetricValue


def elements(counts: dict[int, int], kind: int) -> bytes:
    return b"".join(
        field(3, 2, field(1, 2, field(WIDE, 0, address)) + field(2, 2, field(kind, 0, count)))
        for address, count in counts.items()
    )


@pytest.mark.parametrize("kind", [WIDE, NARROW])
@pytest.mark.parametrize(
    "counts", [{}, {0: 0}, {0x7F0000001000: 0, 0x7F0000001010: 1 << 31, (1 << 64) - 1: 127, 8: 128}]
)
def test_elements_are_read_as_they_were_written(counts: dict[int, int], kind: int) -> None:
    for category in (b"", field(4, 0, 1)):
        assert results._by_address(memoryview(elements(counts, kind) + category)) == counts


def test_elements_of_another_form_are_read_one_by_one_and_those_without_address_belong_to_none() -> None:
    float64 = field(DOUBLE, 1, b"\0\0\0\0\0\0\x59\x40")
    between = field(3, 2, field(1, 2, field(WIDE, 0, 32)) + field(2, 2, float64))
    written = elements({16: 7}, WIDE) + between + elements({48: 9}, WIDE)
    assert results._by_address(memoryview(written)) == {16: 7, 32: 100, 48: 9}
    assert results._by_address(memoryview(field(3, 2, field(2, 2, field(WIDE, 0, 7))))) == {}
