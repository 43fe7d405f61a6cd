"""What programs of bench/ say: the documentation's tables, verdicts of the adversary, what is called harm."""

import dataclasses
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from bench.corpus import hostile, outcome
from bench.corpus.attempt import OUTPUT, Ran
from bench.corpus.case import Draft
from ncu_swizzle.kernels import catalog
from ncu_swizzle.reports.model import Profile
from tests.support.places import ROOT, text

Bench = Callable[[str], ModuleType]


@pytest.mark.long
def test_the_bottlenecks_are_those_of_the_recordings(recorded: Callable[[str], Profile], bench: Bench) -> None:
    bottlenecks = bench("bottlenecks")
    page = (ROOT / "docs" / "measured.md").read_text(encoding="utf-8")
    shown = re.search(r"written by bench/bottlenecks.py -->\n(.*?)<!-- end of bottlenecks -->", page, re.DOTALL)
    assert shown
    lines = {line.split(" | ")[0].removeprefix("| "): line for line in shown[1].splitlines()[2:]}
    assert list(lines) == [kernel.name for _, kernel in catalog.shipped().run()]
    for name in ("kernel1", "kernel2", "gemm-pipelined", "transpose-plain", "tma-128"):  # reading all takes long
        assert lines[name] == bottlenecks.line(recorded(name)), "python3 bench/bottlenecks.py --write"


@pytest.mark.slow
def test_the_estimates_outside_the_catalogue_are_those_of_the_reports(bench: Bench) -> None:
    rules = bench("rules")
    pairs = list(rules.outside())
    assert len(pairs) >= 4
    assert [pair for pair in pairs if not pair.holds] == []
    page = (ROOT / "docs" / "rules.md").read_text(encoding="utf-8")
    assert rules.table_outside(pairs) in page, "python3 bench/rules.py --write"


def test_every_table_has_both_its_markers() -> None:
    for name in ("docs/install", "docs/measured", "docs/rules", "docs/security", "docs/performance", "docs/fleet"):
        text = (ROOT / f"{name}.md").read_text(encoding="utf-8")
        started = re.findall(r"<!-- (\w+): written by", text)
        assert started, name
        assert started == re.findall(r"<!-- end of (\w+) -->", text)


def test_every_extra_has_a_size(bench: Bench) -> None:
    extras = bench("extras")
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    sizes = dict(re.findall(r"^\| `?([\w-]+)`? \| ([\d,]+) MB \|$", page, re.MULTILINE))
    assert sizes.keys() == {"none", *extras.extras()} - {*extras.LEFT_OUT}, "python3 bench/extras.py --write"
    assert re.findall(r"^\| .* \| `([\w-]+)` \| .* \|$", page, re.MULTILINE) == extras.extras()


def test_what_an_extra_adds_is_what_lies_there(tmp_path: Path, bench: Bench) -> None:
    extras = bench("extras")
    packages = extras.environment(tmp_path / "empty", tmp_path)
    (packages / "library").mkdir()
    (packages / "library" / "code.so").write_bytes(bytes(3_000_000))
    assert extras.megabytes(extras.size(packages)) == "3 MB"


# ---------------------------------------------------------------------------------------------- the adversary of fix

needs_gxx = pytest.mark.skipif(not shutil.which("g++"), reason="needs g++")

TILED, UNTILED = text("bench/tiled.cu"), text("bench/untiled.cu")
VERSIONS = {
    "swizzled": TILED.replace("at<32>(tile, r, tx)", "at<32>(tile, r, tx ^ r)").replace(
        "at<32>(tile, tx, r)", "at<32>(tile, tx, r ^ tx)"
    ),
    "untiled": UNTILED,  # the same without shared memory and barriers: what the other one must come to
    "helper": TILED.replace("r * W + c", "r * W + (c ^ r)"),  # also of g, which the described launch does not read
    "barrier": TILED.replace("    __syncthreads();\n", ""),
    "beyond": TILED.replace("y[b * 1024", "y[8000 + b * 1024"),
    "crash": TILED.replace("y[b * 1024", "y[1000000000 + b * 1024"),
}


@pytest.mark.long
@needs_gxx
def test_the_shim_tells_right_versions_from_wrong_ones(bench: Bench, tmp_path: Path) -> None:
    adversary: Any = bench("adversary")
    launch = bench("adversary_kernels").Launch
    program = adversary.Program(
        name="known", text=TILED, element="int", dynamic=0, described=launch(), features=frozenset(),
        others=(launch(blocks=2), launch(flag=1, other="RANDOM")),
    )  # fmt: skip
    pairs = [adversary.Pair(name=name, program=program, after=text) for name, text in VERSIONS.items()]
    found = adversary.verdicts(pairs, tmp_path)
    words = {name: (verdict.word, verdict.described) for name, verdict in found.items()}
    assert words == {
        "swizzled": ("same", False), "untiled": ("same", False), "helper": ("differ", False),
        "barrier": ("differ", True), "beyond": ("differ", True), "crash": ("crashed", True),
    }  # fmt: skip
    assert found["helper"].launch == program.others[1]


# ------------------------------------------------------------------------------------- harm, as bench/damage.py sees it

FINE = Ran(0, b"fine\n", b"", {}, (), (), False, False, 0.1, 1 << 20)
DRAFT = Draft("none", "", {"k.json": b"{}"}, ("report", "k.json"))


def changed(**fields: object) -> Ran:
    return dataclasses.replace(FINE, **fields)


HARM = [
    (changed(code=1, stderr=b"Traceback (most recent call last):\n\nKeyError: 1\n"), outcome.CRASH),
    (changed(code=70, stderr=b"unforeseen"), outcome.CRASH),
    (changed(code=-11), outcome.CRASH),
    (changed(hung=True), outcome.HANG),
    (changed(marked=True), outcome.CODE),
    (changed(stdout=b"\x1b[31mred"), outcome.RAW),
    (changed(stderr="a \u202e b".encode(), code=2), outcome.RAW),
    (changed(stdout=b"\xff"), outcome.RAW),
    (changed(written={"out.html": b"<img src=x onerror=alert(1)></html>"}), outcome.MARKUP),
    (changed(written={"out.csv": b"name\n=1+1\n"}), outcome.MARKUP),
    (changed(stdout=b"a\n::stop-commands::x\n"), outcome.MARKUP),
    (changed(written={"out.json": b'{"a": NaN}'}), outcome.INVALID),
    (changed(written={"out.html": b"<html>"}), outcome.INVALID),
    (changed(written={"out.xml": b"<a>"}), outcome.INVALID),
    (changed(code=2), outcome.MUTE),
    (changed(lost=("k.json",)), outcome.LOST),
    (changed(code=2, stderr=b"no", written={"out.json": b"{}"}), outcome.LOST),
    (changed(written={".out.json.1.ab": b"{}"}), outcome.LEFT),
    (changed(left=("ncu-swizzle-1",)), outcome.LEFT),
]


def test_harm_is_seen() -> None:
    for ran, what in HARM:
        draft = dataclasses.replace(DRAFT, outputs=tuple(name for name in ran.written if not name.startswith(".")))
        assert what in [kind for kind, _ in outcome.judged(draft, ran).wrong], ran


def test_what_is_harmless_is_not_harm() -> None:
    ran = changed(stdout="kernel2 → 1×\n".encode(), written={"out.csv": b"n\n-0.5\n@!P0 BRA\n", "out.json": b"{}"})
    draft = dataclasses.replace(DRAFT, outputs=("out.csv", "out.json"))
    assert outcome.judged(draft, ran).wrong == ()
    assert outcome.judged(draft, changed(code=2, stderr=b"error: k.json is damaged\n")).what == outcome.REFUSED


def test_a_silent_change_and_a_dependence_on_the_cache_are_seen() -> None:
    silent = outcome.judged(dataclasses.replace(DRAFT, must_refuse=True), FINE)
    assert [what for what, _ in silent.wrong] == [outcome.SILENT]
    differs = outcome.judged(DRAFT, changed(stdout=b"other"), FINE)
    assert [what for what, _ in differs.wrong] == [outcome.DIFFERS]


def test_a_half_written_output_is_seen() -> None:
    draft = dataclasses.replace(DRAFT, outputs=("out.json",), largest_file=3)
    ran = changed(code=2, stderr=b"error: cannot write out.json\n", written={"out.json": b'{"a'})
    assert [what for what, _ in outcome.judged(draft, ran).wrong] == [outcome.LOST]
    assert outcome.judged(draft, dataclasses.replace(ran, written={"out.json": OUTPUT[:3]})).wrong


def test_a_pickle_of_the_corpus_would_run(tmp_path: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    import pickle

    marker = tmp_path / "ran"
    monkeypatch.setenv(hostile.MARKER, str(marker))
    pickle.loads(hostile.pickled())
    assert marker.exists(), "or a cache that unpickles would not be noticed"
