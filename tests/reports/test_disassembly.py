"""What only NVIDIA's reader tells: asked within limits, kept if whole, and not believed if damaged."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.corpus.oddities import oddities
from ncu_swizzle.base import cache
from ncu_swizzle.base.errors import BadFile, DamagedFile, NcuSwizzleError
from ncu_swizzle.base.files import read_toml
from ncu_swizzle.gate import baseline
from ncu_swizzle.kernels.project import project_in
from ncu_swizzle.render import formats
from ncu_swizzle.render import page as report
from ncu_swizzle.reports import container, reader, remarks, run_folder
from ncu_swizzle.reports.comparison import compare
from ncu_swizzle.reports.reader import Line, Question
from tests.support.recordings import Recorded


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
    assert "unknown" in formats.render(comparison)


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
