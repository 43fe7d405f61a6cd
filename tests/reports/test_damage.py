"""Damaged reports, facts and profiles are refused with a message that says what is wrong.

bench/damage.py damages them at random; tests/bench/test_damage.py runs a few of its cases.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ncu_swizzle.base import cache, paths, validate
from ncu_swizzle.base.errors import BadFile, DamagedFile, NcuSwizzleError
from ncu_swizzle.base.files import read_toml
from ncu_swizzle.gate import baseline, checking
from ncu_swizzle.reports import container, disassembly, reader, run_folder, sanity
from ncu_swizzle.reports.model import Profile
from tests.support import process
from tests.support.corpus import originals
from tests.support.corpus.oddities import oddities
from tests.support.recordings import Recorded


@pytest.mark.parametrize(
    "read", [reader.read, run_folder.load_profile, baseline.load, checking.read, container.inspect, read_toml]
)
def test_what_is_no_file_is_refused_at_once(read: Callable[[Path], Any], tmp_path: Path) -> None:
    start = time.monotonic()
    for path in oddities(tmp_path / "odd"):
        if path.stem == "locked" and os.geteuid() == 0:
            continue  # root may read everything
        if path.stem == "empty" and read in (checking.read, read_toml):
            continue  # an empty TOML file is a whole one
        with pytest.raises(NcuSwizzleError) as refused:
            read(path)
        assert str(refused.value)
    assert time.monotonic() - start < 60


def test_the_command_line_refuses_oddities_with_a_message(tmp_path: Path) -> None:
    paths = [path for path in oddities(tmp_path / "odd") if path.suffix == ".ncu-rep"]
    chosen = [path for path in paths if path.stem in ("loop", "pipe", "device")]
    for path in chosen:
        done = process.run("compare", str(path))
        assert done.returncode == 2, (path, done.stderr)
        assert done.stderr.startswith("error: ")
        assert "Traceback" not in done.stderr


# ---------------------------------------------------------------------------------------------- digests and types


def rewritten(profile: Profile, change: Callable[[dict[str, Any]], Any]) -> str:
    """Return a saved profile with other content and a digest that fits it: whoever can change it can do that."""
    content = json.loads(profile.to_json())
    del content["digest"]
    change(content)
    from ncu_swizzle.base.cache import sha256_of_json

    return json.dumps({**content, "digest": sha256_of_json(content)})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda content: content.pop("kernel"), "damaged"),
        (lambda content: content.update(kernel="kernel2"), "damaged"),
        (lambda content: content["instructions"]["rows"].append([1]), "damaged"),
        (lambda content: content["instructions"].update(stacks=[[["file", "line"]]]), "damaged"),
        (lambda content: content.update(problem={"n": 10**400}), "problem.n is 1000"),
        (lambda content: content.update(when=7), "when is 7"),
        (lambda content: content.update(sources={"a.cu": None}), "sources.a.cu is None"),
        (lambda content: content["machine"].update(sm_count="many"), "machine.sm_count is 'many'"),
        (lambda content: content["metrics"].update(x={"value": 1e999, "unit": ""}), "metrics.x.value is inf"),
        (lambda content: content["metrics"].update(x={"value": float("nan"), "unit": ""}), "metrics.x.value is nan"),
        (lambda content: content.update(extra=1), "damaged"),
    ],
)
def test_a_right_digest_over_wrong_content_is_refused(
    change: Callable[[dict[str, Any]], Any], said: str, recorded: Recorded, tmp_path: Path
) -> None:
    file = tmp_path / "k.json"
    file.write_text(rewritten(recorded("tma-128"), change), encoding="utf-8")
    with pytest.raises(DamagedFile, match="is damaged: ") as refused:
        run_folder.load_profile(file)
    assert said in str(refused.value)


def test_every_recording_has_the_shape_that_its_classes_declare(recorded: Recorded) -> None:
    assert validate.mismatch(recorded("kernel2")) == ""


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"kernel": "kernel2", "profiles": []}, "lists no profiles"),
        ({"kernel": "kernel2", "profiles": ["../k.json"]}, "lists no profiles"),
        ({"kernel": "kernel2", "profiles": "k.json"}, "lists no profiles"),
        ({"kernel": ["kernel2"], "profiles": ["k.json"]}, "names no kernel"),
        ({"kernel": "kernel9", "profiles": ["k.json"]}, "none of its profiles is of 'kernel9'"),
        ([], "names no kernel"),
    ],
)
def test_a_manifest_that_makes_no_sense_is_refused(
    content: object, said: str, recorded: Recorded, tmp_path: Path
) -> None:
    recorded("tma-128").save(tmp_path / "k.json")
    (tmp_path / "run.json").write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(DamagedFile, match=said):
        run_folder.load(tmp_path)


# ---------------------------------------------------------------------------------------------- facts


def facts(beside: Path, **changes: Any) -> None:
    content = json.loads(container.facts_path(paths.recordings() / "h100/tma/tma-128.ncu-rep").read_text())
    container.facts_path(beside).write_text(json.dumps({**content, **changes}), encoding="utf-8")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"problem": {"n": "64"}}, "problem.n is '64'"),
        ({"sources": ["a.cu"]}, "sources is"),
        ({"machine": 3}, "machine is 3"),
        ({"errors": {"tma-128": {"out": "small"}}}, "errors.tma-128.out"),
        ({"report": {}}, "lacks the report's SHA-256"),
        ({"digest": "sha256:0"}, "changed after it was written"),
    ],
)
def test_facts_that_make_no_sense_are_refused(changes: dict[str, Any], said: str, tmp_path: Path) -> None:
    report = tmp_path / "tma-128.ncu-rep"
    report.write_bytes(originals.report("tma/tma-128"))
    facts(report, **changes)
    with pytest.raises(DamagedFile, match="is damaged") as refused:
        reader.read(report)
    assert said in str(refused.value)


def test_sealed_facts_keep_what_ncu_warned_of(tmp_path: Path) -> None:
    report = tmp_path / "tma-128.ncu-rep"
    report.write_bytes(originals.report("tma/tma-128"))
    facts(report)
    container.seal(report, ["ncu could not read 3 metrics: a, b, c."])
    (profile,) = reader.read(report)
    notes = [finding.message for finding in profile.findings if finding.rule == sanity.NOTE]
    assert notes == ["ncu could not read 3 metrics: a, b, c."]
    content = container.facts_path(report).read_text(encoding="utf-8")
    container.facts_path(report).write_text(content.replace("tma-128", "tma-129"), encoding="utf-8")
    with pytest.raises(DamagedFile, match="was changed after it was written"):
        reader.read(report)


# ---------------------------------------------------------------------------------------------- the reader's limits


def other_reader(folder: Path, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "ncu_report.py").write_text(f"def load_report(path):\n    {code}\n", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))


@pytest.mark.parametrize(
    ("code", "error", "said"),
    [
        ("x = bytearray(1 << 34)", DamagedFile, "run out of memory"),
        ("import os; os.abort()", DamagedFile, r"crash \(signal 6\)"),
        ("raise RuntimeError('Failed to open')", BadFile, "cannot be read: RuntimeError: Failed to open"),
    ],
)
def test_a_hostile_report_cannot_eat_the_machine(
    code: str,
    error: type[NcuSwizzleError],
    said: str,
    report_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other_reader(tmp_path, code, monkeypatch)
    with pytest.raises(error, match=said):
        reader.read(report_file)


@pytest.mark.long
@pytest.mark.usefixtures("own_cache")
def test_an_answer_beyond_its_limit_is_refused(report_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disassembly, "ANSWER", 1000)
    with pytest.raises(NcuSwizzleError, match="cannot be read"):
        reader.read(report_file)


@pytest.mark.long
@pytest.mark.usefixtures("own_cache")
@pytest.mark.parametrize("name", ["tma-128", "kernel2"])
def test_a_second_reading_says_the_same_and_asks_nothing(
    name: str, recorded_file: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = reader.read(recorded_file(name))
    asked: list[dict[str, Any]] = []
    told = disassembly._answer
    monkeypatch.setattr(disassembly, "_answer", lambda report, order: asked.append(order) or told(report, order))
    assert reader.read(recorded_file(name)) == first
    assert not asked
    for file in (tmp_path / "cache" / "ncu-swizzle" / "disassembly").iterdir():
        file.write_bytes(file.read_bytes().replace(b"LDS", b"STS").replace(b"warp", b"wrap"))
    assert reader.read(recorded_file(name)) == first
    (order,) = asked
    assert order["units"], "the units that were kept are damaged, and not believed"
    assert order["code"], "nor the texts"


WRONG_TYPES = [
    *(b"null", b"[]", b"7", b'"text"', b"[[1, 2]]", b"{", b"\\xff", b"[" * 100_000, b'{"0": 7}', b'{"0": null}'),
    *(b'{"0": ["NOP"]}', b'{"0": ["NOP", 7]}', b'{"0": [7, null]}', b'{"0": ["NOP", ["a.cu"]]}'),
    *(
        b'{"0": ["NOP", ["a.cu", "7"]]}',
        b'{"0": ["NOP", [null, 7]]}',
        b'{"0": {"text": "NOP"}}',
        b'{"0": "NOP", "10": 7}',
    ),
    b'{"0": ["NOP", ["a.cu", 1' + b"0" * 5000 + b"]]}",
]


@pytest.mark.long
@pytest.mark.usefixtures("own_cache")
@pytest.mark.parametrize("content", WRONG_TYPES)
def test_an_answer_of_the_wrong_type_is_dropped_and_asked_again(
    content: bytes, report_file: Path, tmp_path: Path
) -> None:
    first = reader.read(report_file)
    folder = tmp_path / "cache" / "ncu-swizzle" / "disassembly"
    names = {file.name: file.read_bytes() for file in folder.iterdir()}
    assert len(names) == 2, "units, and the code of one function"
    for name in names:
        cache.save("disassembly", name, content)
    assert reader.read(report_file) == first
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == names, "made again"


@pytest.mark.long
@pytest.mark.usefixtures("own_cache")
def test_one_that_cannot_be_kept_is_asked_again(report_file: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("no folder", encoding="utf-8")
    assert reader.read(report_file) == reader.read(report_file)


@pytest.mark.usefixtures("own_cache")
def test_code_is_kept_for_wherever_the_function_lies_next(report_file: Path) -> None:
    (result,) = container.inspect(report_file).results
    start = result.address

    def moved(to: int) -> disassembly.Question:
        source = replace(result.source, functions={result.function: to})
        return disassembly.Question(replace(result, source=source), [to, to + 16])

    code: list[disassembly.Line] = [(f"BRA {start:#x}", ("a.cu", 7)), ("UMOV UR4, 0x400", None)]
    disassembly._keep(moved(start), code)
    assert disassembly._recall(moved(start)) == code
    assert disassembly._recall(moved(start + 4096)) == [(f"BRA {start + 4096:#x}", ("a.cu", 7)), code[1]]
    assert disassembly._recall(moved(0)) is None, "the report does not tell where it lies"
    unknown = disassembly.Question(result, [start, start + 32])
    assert disassembly._recall(unknown) is None, "an instruction that is not known"
    assert disassembly._offsets("CALL 0x7fffff001000", start, start + 16) is None, (
        "another function's address is not kept"
    )


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("LDGSTS.E.BYPASS.128 desc[UR10][R12.64], [R181]", "LDGSTS.E.BYPASS.128 [R181], desc[UR10][R12.64]"),
        ("@!P1 LDGSTS.E.128 desc[UR6][R10.64+0x80], [R111+0x4000]",
         "@!P1 LDGSTS.E.128 [R111+0x4000], desc[UR6][R10.64+0x80]"),
        ("LDGSTS.E.BYPASS.128 [R12.64], [R181], P0", "LDGSTS.E.BYPASS.128 [R181], [R12.64], P0"),
        ("LDGSTS.E.128 [R111], desc[UR6][R10.64]", "LDGSTS.E.128 [R111], desc[UR6][R10.64]"),
        ("LDG.E R4, desc[UR4][R2.64]", "LDG.E R4, desc[UR4][R2.64]"),
    ],
)  # fmt: skip
def test_older_readers_write_one_instruction_the_other_way_round(written: str, meant: str) -> None:
    """As printed by the module of Nsight Compute 2025.3.1 and by that of 2026.3.1, of the same cubins."""
    assert disassembly._in_order(written) == meant


@pytest.mark.usefixtures("own_cache")
def test_what_a_damaged_report_says_is_not_kept(report_file: Path) -> None:
    """A report can be damaged where its container does not show it; the next one of that cubin is none the worse."""
    (result,) = container.inspect(report_file).results
    start = result.address
    asked = disassembly.Question(result, [start, start + 16])
    disassembly._keep(asked, [("", None), ("EXIT", None)])
    assert disassembly._recall(asked) is None, "a text is missing"
    shifted = disassembly.Question(result, [start + 16, start + 32])
    disassembly._keep(shifted, [("NOP", None), ("EXIT", None)])
    assert disassembly._recall(shifted) is None, "it does not begin where the function does"
    other = replace(result, source=replace(result.source, target=(*result.source.target[:1], 75, 0)))
    disassembly._keep(disassembly.Question(other, asked.pcs), [("NOP", None), ("EXIT", None)])
    assert disassembly._recall(asked) is None, "it was disassembled as another GPU's"
