"""A .ncu-rep's bytes: read as NVIDIA's module reads them; what only its reader tells; damage is noticed."""

import contextlib
import json
import os
import random
import shutil
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import strategies as st

from bench.attacks.corpus import bytewise, frames, originals
from bench.attacks.corpus.frames import field
from bench.attacks.corpus.oddities import oddities
from ncu_swizzle.base import cache
from ncu_swizzle.base.errors import BadFile, DamagedFile, NcuSwizzleError
from ncu_swizzle.base.files import read_toml
from ncu_swizzle.engines import reader
from ncu_swizzle.engines.reader import Line, Question
from ncu_swizzle.gate import baseline
from ncu_swizzle.kernels.project import project_in
from ncu_swizzle.render import formats
from ncu_swizzle.render import page as report
from ncu_swizzle.reports import container, remarks, run_folder
from ncu_swizzle.reports.comparison import compare
from ncu_swizzle.reports.model import STALLED
from tests.support import nvidia_says
from tests.support.places import PROGRAMS, RECORDINGS
from tests.support.properties import chances, examples, holds
from tests.support.recordings import REPORTS, Recorded
from tests.support.reports import join

Nvidia = dict[Path, list[dict[str, Any]]]
INVALID = (ValueError, IndexError, struct.error)  # what `protobuf` says that it raises


# ------------------------------------------------------------------------------------- beside NVIDIA's module


@pytest.mark.long
@pytest.mark.parametrize("set_of_sections", ["recorded attention", "programs"])
def test_every_number_and_every_word_is_the_modules(set_of_sections: str, nvidia: Nvidia) -> None:
    ours = [file for file in REPORTS if (file.parent == PROGRAMS) == (set_of_sections == "programs")]
    for file in ours:
        read = container.inspect(file).results
        assert len(read) == len(nvidia[file]), file
        for one, theirs in zip(read, nvidia[file], strict=True):
            assert {one.name, one.function, one.demangled} == set(theirs["names"]), file
            assert one.metrics.keys() == theirs["metrics"].keys(), file
            differing = [name for name, value in one.metrics.items() if str(value) != str(theirs["metrics"][name])]
            assert differing == [], file  # as text: NaN is itself
            for name, counts in theirs["counts"].items():
                whole = all(count == int(count) for count in counts.values())
                if whole and all(int(address) >= 1 << 32 for address in counts):  # others are of opcodes, or of units
                    assert {str(pc): count for pc, count in one.per_instruction(name).items()} == counts, (file, name)
            assert dict(one.source.files) == theirs["files"], file
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


def test_a_name_that_no_compiler_makes_is_refused(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be repeated in every row."""
    monkeypatch.setattr(remarks, "LONGEST_NAME", 6)
    with pytest.raises(BadFile, match="the name tma_128… has 7 characters, and the limit is 6"):
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
        message = container.Message(memoryview(written))
        for number, _, value in {part[0]: part for part in parts}.values():
            if isinstance(value, int):
                assert message.number(number) == value
                assert container.varint(frames.varint(value) + more, 0) == (value, len(frames.varint(value)))

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
        assert container._by_address(memoryview(elements(counts, kind) + category)) == counts


def test_elements_of_another_form_are_read_one_by_one_and_those_without_address_belong_to_none() -> None:
    float64 = field(DOUBLE, 1, b"\0\0\0\0\0\0\x59\x40")
    between = field(3, 2, field(1, 2, field(WIDE, 0, 32)) + field(2, 2, float64))
    written = elements({16: 7}, WIDE) + between + elements({48: 9}, WIDE)
    assert container._by_address(memoryview(written)) == {16: 7, 32: 100, 48: 9}
    assert container._by_address(memoryview(field(3, 2, field(2, 2, field(WIDE, 0, 7))))) == {}


@pytest.mark.parametrize(
    "read", [reader.read, run_folder.load_profile, baseline.load, project_in, container.inspect, read_toml]
)
def test_what_is_not_a_file_is_refused(read: Callable[[Path], Any], tmp_path: Path) -> None:
    for path in oddities(tmp_path / "odd"):
        if path.stem == "locked" and os.geteuid() == 0:
            continue  # root may read everything
        if path.stem == "empty" and read in (project_in, read_toml):
            continue  # an empty TOML file is a whole one
        with pytest.raises(NcuSwizzleError) as refused:
            read(path)
        assert str(refused.value), path


# ------------------------------------------------------------------------------------- the reader's limits


@pytest.mark.long
def test_a_hostile_report_cannot_crash_us_eat_the_machine_or_hang(
    report_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NVIDIA's reader does whatever the bytes make it do: here a module of its name does the worst."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for code, limit_s, error, words in (
        ("x = bytearray(1 << 34)", reader.TIMEOUT_S, DamagedFile, "run out of memory"),
        ("import os; os.abort()", reader.TIMEOUT_S, DamagedFile, r"makes NVIDIA's reader crash \(signal 6\)"),
        ("raise RuntimeError('oh')", reader.TIMEOUT_S, BadFile, "cannot be read: RuntimeError: oh"),
        ("import time; time.sleep(60)", 1, DamagedFile, r"reading .* took more than 1 s"),
    ):
        (tmp_path / "ncu_report.py").write_text(f"def load_report(path):\n    {code}\n", encoding="utf-8")
        monkeypatch.setattr(reader, "TIMEOUT_S", limit_s)
        with pytest.raises(error, match=words):
            reader.read(report_file)


@pytest.mark.long
@pytest.mark.usefixtures("own_cache")
def test_an_answer_beyond_its_limit_is_refused(report_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "ANSWER", 1000)
    with pytest.raises(NcuSwizzleError, match="cannot be read"):
        reader.read(report_file)


@pytest.mark.long
def test_without_texts_accesses_are_counted_and_their_kind_is_unknown(
    report_file: Path, recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask, first, second = reader.units_and_code, recorded("kernel1"), recorded("kernel2")  # read, and kept, with texts

    def wordless(report: Path, questions: Any) -> Any:
        units, codes = ask(report, questions)
        return units, [[("", at) for _, at in code] for code in codes]

    monkeypatch.setattr(reader, "units_and_code", wordless)
    (profile,) = reader.read(report_file)
    assert profile.accesses == {"unknown": second.total}
    doubts = " ".join(remarks.doubts(profile))
    assert "no instruction has SASS in the report: profile with ncu --import-sass yes" in doubts
    assert not remarks.about_counts(profile), "their sum is known"
    assert "cannot tell which accesses are LDSM" in remarks.about_counts(profile, "LDSM")
    comparison = compare([first, profile])
    assert "unknown" in report.render(comparison)
    assert "unknown" in formats.render_all([comparison])


# ------------------------------------------------------------------------------------- answers that are kept

WRONG_TYPES = (
    b"null", b"[]", b"7", b'"text"', b"[[1, 2]]", b"{", b"\\xff", b"[" * 100_000, b'{"0": 7}', b'{"0": null}',
    b'{"0": ["NOP"]}', b'{"0": ["NOP", 7]}', b'{"0": [7, null]}', b'{"0": ["NOP", ["a.cu"]]}',
    b'{"0": ["NOP", ["a.cu", "7"]]}', b'{"0": ["NOP", [null, 7]]}', b'{"0": {"text": "NOP"}}',
    b'{"0": "NOP", "10": 7}', b'{"0": ["NOP", ["a.cu", 1' + b"0" * 5000 + b"]]}",
)  # fmt: skip


@pytest.mark.long
@pytest.mark.usefixtures("own_cache")
def test_a_second_reading_asks_nothing_and_a_damaged_answer_is_asked_again(
    recorded_file: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NVIDIA's module answers once; what it said is given again, as it takes half a second each time."""
    report = recorded_file("tma-128")
    ask, told = reader._answer, dict[str, Any]()
    asked: list[dict[str, Any]] = []

    def answer(report: Path, order: dict[str, Any]) -> dict[str, Any]:
        asked.append(order)
        if (key := str(order)) not in told:
            told[key] = ask(report, order)
        return told[key]  # type: ignore[no-any-return]

    monkeypatch.setattr(reader, "_answer", answer)
    first = reader.read(report)
    kept = tmp_path / "cache" / "ncu-swizzle" / "disassembly"
    entries = {file.name: file.read_bytes() for file in kept.iterdir()}
    assert len(entries) == 2, "units, and the code of one function"
    assert (reader.read(report), len(asked)) == (first, 1)

    def asked_again(damage: str) -> dict[str, Any]:
        before = len(asked)
        assert reader.read(report) == first, damage
        assert len(asked) == before + 1, damage
        assert {file.name: file.read_bytes() for file in kept.iterdir()} == entries, "made again"
        return asked[-1]

    for file in kept.iterdir():
        file.write_bytes(file.read_bytes().replace(b"LDS", b"STS").replace(b"warp", b"wrap"))
    order = asked_again("texts and units that were altered")
    assert order["units"]
    assert order["code"]
    for content in WRONG_TYPES:
        for name in entries:
            cache.save("disassembly", name, content)
        asked_again(content.decode()[:40])


@pytest.mark.usefixtures("own_cache")
def test_code_is_kept_for_wherever_the_function_lies_next_unless_a_damaged_report_says_it(report_file: Path) -> None:
    """A report can be damaged where its container does not show it; the next one of that cubin is none the worse."""
    (result,) = container.inspect(report_file).results
    start = result.address

    def moved(to: int) -> Question:
        source = replace(result.source, functions={result.function: to})
        return Question(replace(result, source=source), [to, to + 16])

    question, shifted = moved(start), Question(result, [start + 16, start + 32])
    reader._keep(question, [("", None), ("EXIT", None)])
    assert reader._recall(question) is None, "a text is missing"
    reader._keep(shifted, [("NOP", None), ("EXIT", None)])
    assert reader._recall(shifted) is None, "it does not begin where the function does"
    other = replace(result, source=replace(result.source, target=(*result.source.target[:1], 75, 0)))
    reader._keep(Question(other, question.pcs), [("NOP", None), ("EXIT", None)])
    assert reader._recall(question) is None, "it was disassembled as another GPU's"
    code: list[Line] = [(f"BRA {start:#x}", ("a.cu", 7)), ("UMOV UR4, 0x400", None)]
    reader._keep(question, code)
    assert reader._recall(moved(start)) == code
    assert reader._recall(moved(start + 4096)) == [(f"BRA {start + 4096:#x}", ("a.cu", 7)), code[1]]
    assert reader._recall(moved(0)) is None, "the report does not tell where it lies"
    assert reader._recall(Question(result, [start, start + 32])) is None, "an instruction that is not known"
    assert reader._offsets("CALL 0x7fffff001000", start, start + 16) is None, "another function's address"


def test_older_readers_write_one_instruction_the_other_way_round() -> None:
    """As printed by the module of Nsight Compute 2025.3.1 and by that of 2026.3.1, of the same cubins."""
    for written, meant in {
        "LDGSTS.E.BYPASS.128 desc[UR10][R12.64], [R181]": "LDGSTS.E.BYPASS.128 [R181], desc[UR10][R12.64]",
        "@!P1 LDGSTS.E.128 desc[UR6][R10.64+0x80], [R111+0x4000]": (
            "@!P1 LDGSTS.E.128 [R111+0x4000], desc[UR6][R10.64+0x80]"
        ),
        "LDGSTS.E.BYPASS.128 [R12.64], [R181], P0": "LDGSTS.E.BYPASS.128 [R181], [R12.64], P0",
        "LDGSTS.E.128 [R111], desc[UR6][R10.64]": "LDGSTS.E.128 [R111], desc[UR6][R10.64]",
        "LDG.E R4, desc[UR4][R2.64]": "LDG.E R4, desc[UR4][R2.64]",
    }.items():
        assert reader._in_order(written) == meant


def test_a_report_that_is_replaced_while_it_is_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recorded_file: Callable[[str], Path]
) -> None:
    file, other = tmp_path / "k.ncu-rep", tmp_path / "other.ncu-rep"
    file.write_bytes(recorded_file("transpose-plain").read_bytes())
    other.write_bytes(recorded_file("transpose-xor").read_bytes())
    whole = reader.units_and_code

    def replaced(*arguments: Any) -> Any:
        answer = whole(*arguments)
        other.replace(file)
        return answer

    monkeypatch.setattr(reader, "units_and_code", replaced)
    with pytest.raises(BadFile, match="has changed while it was read"):
        reader.read(file)
