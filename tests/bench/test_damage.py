"""A few cases of bench/damage.py do no harm, and what would be harm is seen."""

import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable
from random import Random

import pytest

from bench.corpus import binaries, frames, hostile, kinds, originals, outcome, trees
from bench.corpus.attempt import OUTPUT, Ran
from bench.corpus.case import Draft
from tests.support.places import ROOT
from tests.support.process import environment

HANG_S = "120"  # a test says nothing about time: other tests run beside it


@pytest.mark.slow
def test_no_damage_does_harm() -> None:
    command = [sys.executable, str(ROOT / "bench" / "damage.py"), "--workers", "1", "--limit", HANG_S, "--seed", "7"]
    done = subprocess.run([*command, "--count", "40"], capture_output=True, text=True, env=environment(), check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    assert "40 cases, seed 7" in done.stdout
    assert "0 violations" in done.stdout


@pytest.mark.long
def test_a_kind_s_cases_are_the_same_for_the_same_seed() -> None:
    for kind in kinds.KINDS:
        if kind.name not in ("cubin", "PTX"):  # compiled first
            first, second = (list(kinds.cases(2, 3, kind.name)) for _ in range(2))
            assert first == second
            assert first != list(kinds.cases(2, 4, kind.name))
            assert {case.kind for case in first} == {kind.name}


def test_the_kinds_are_as_many_as_promised() -> None:
    shares = {kind.name: kind.share for kind in kinds.KINDS}
    assert shares["report of ours"] + shares["hostile report"] + shares["facts"] >= 2000
    assert shares["saved profile"] + shares["baseline"] + shares["run.json"] >= 2000
    assert shares["cubin"] + shares["PTX"] >= 2000
    assert shares["ncu-swizzle.toml"] + shares["pyproject.toml"] + shares["family.toml"] >= 1000
    assert shares["cache"] >= 500


# ---------------------------------------------------------------------------------------------- what would be seen

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


# ---------------------------------------------------------------------------------------------- how it is damaged


DAMAGES: list[tuple[Callable[[bytes, Random], bytes], tuple[str, ...]]] = [
    (binaries.with_hostile_header, ()),
    (binaries.with_hostile_section, ()),
    (binaries.with_hostile_symbol, ()),
    (lambda data, chance: binaries.with_damaged_section(data, chance, r"\.text"), (".text",)),
    (lambda data, chance: binaries.with_damaged_section(data, chance, r"\.debug_line"), (".debug_line",)),
]


def test_a_cubin_is_damaged_where_it_should_be() -> None:
    original = originals.embedded("vectors/vectors-4-stride")
    sections = binaries.sections(original)
    for change, names in DAMAGES:
        for seed in range(20):
            data = change(original, Random(seed))
            assert len(data) == len(original)
            changed_at = [at for at, (now, then) in enumerate(zip(data, original, strict=True)) if now != then]
            within = {s.name for at in changed_at for s in sections if s.start <= at < s.start + s.size}
            assert len(changed_at) <= 8
            assert not names or all(name.startswith(names) for name in within)


def test_a_report_keeps_its_frame_around_a_hostile_field() -> None:
    whole = originals.report("basic")
    apart = frames.Report.taken_apart(whole)
    assert apart.put_together() == whole
    different = 0
    for seed in range(20):
        chance = Random(seed)
        data = apart.changed(lambda message: frames.with_hostile_field(message, chance), chance, 2).put_together()  # noqa: B023
        again = frames.Report.taken_apart(data)
        assert [len(block.payload) for block in again.blocks] == [len(block.payload) for block in apart.blocks]
        different += data != whole
    assert different > 15


def test_a_pickle_of_the_corpus_would_run(tmp_path: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    import pickle

    marker = tmp_path / "ran"
    monkeypatch.setenv(hostile.MARKER, str(marker))
    pickle.loads(hostile.pickled())
    assert marker.exists(), "or a cache that unpickles would not be noticed"


def test_a_hostile_value_is_somewhere_in_the_tree_and_toml_holds_it() -> None:
    import tomllib

    content = json.loads(json.dumps(originals.project()))
    different = sum(trees.with_hostile_value(content, Random(seed)) != content for seed in range(50))
    assert different > 40
    assert tomllib.loads(trees.toml(content).decode()) == content
