"""What bench/damage.py calls harm, and what it does not."""

import dataclasses

import pytest

from bench.corpus import hostile, outcome
from bench.corpus.attempt import OUTPUT, Ran
from bench.corpus.case import Draft

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
