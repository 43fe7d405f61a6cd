"""Damaged and hostile files, made from real ones by a seeded generator, and what becomes of each when it is read.

    for case in corpus.cases(2000, seed=1):
        outcome = corpus.attempt(case, folder)

Tests run a few, ``bench/damage.py`` all. An outcome is `refused` (one of our errors, with a message), `read` (the file
holds no digest, or what was damaged does not matter), or a violation: a crash, a hang, or data that was changed
without a word.
"""

# ruff: noqa: ARG001 - every kind of damage is given the same

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from ncu_swizzle import paths
from ncu_swizzle.catalog import collection
from ncu_swizzle.errors import NcuSwizzleError
from ncu_swizzle.gate import baseline, config, judge, policy
from ncu_swizzle.gate.policy import Policy
from ncu_swizzle.ncurep import launch_facts, reader
from ncu_swizzle.profiles import run_folder
from ncu_swizzle.profiles.comparison import compare
from ncu_swizzle.profiles.model import Profile
from ncu_swizzle.render import listing, page
from tests.support.places import RECORDINGS

SLOWEST_S = 180.0  # longer is a hang: the reader's own limit is below
REFUSED, READ = "refused", "read"
CRASH, HANG, SILENT, MUTE = "CRASHED", "HUNG", "CHANGED SILENTLY", "NO MESSAGE"
VIOLATIONS = (CRASH, HANG, SILENT, MUTE)


REPORTS = ("tma/tma-128", "vectors/vectors-4-stride", "transpose/transpose-xor", "attention/kernel2")


@dataclass(frozen=True)
class Kind:
    """A kind of file: its name in the folder, what lies beside it, how it is read and used, and how often it comes."""

    name: str
    file: str
    weight: int
    read: Callable[[Path], Any]
    use: Callable[[Any], Any] = lambda found: None
    sealed: bool = False  # whether the file's content is protected by a digest
    beside: str = ""  # what lies beside: a report, facts, a profile


@dataclass(frozen=True)
class Case:
    """One damaged file: its kind, what was done to it, and what lies in the folder."""

    number: int
    kind: Kind
    damage: str
    source: str
    files: Mapping[str, bytes] = field(repr=False)


@dataclass(frozen=True)
class Outcome:
    """What became of it; `said` is the message, or the violation's circumstances."""

    what: str
    said: str
    seconds: float

    @property
    def violation(self) -> bool:
        return self.what in VIOLATIONS


# ---------------------------------------------------------------------------------------------- kinds of files


def _show(profiles: Any) -> None:
    """Do with profiles what commands do."""
    found = list(profiles)
    page.render(compare(found))
    judge.judge(found, Policy((policy.parse_rule("max-excessive", "0"), policy.parse_rule("max-degree", "*=2"))))
    baseline.entry_of(found[:1])
    for one in found:
        assert Profile.from_json(one.to_json()) is not None


def _plan(found: collection.Catalog) -> None:
    """Do with a catalogue what commands do before anything is launched."""
    json.dumps(listing.data(found))
    listing.markdown(found)
    for family in found.families:
        problem = family.problem()
        family.geometry(problem)
        for kernel in family.kernels:
            family.shared_memory(kernel, problem)
            family.source(kernel)


def _check(settings: config.GateSettings) -> None:
    judge.judge([saved("tma/tma-128")], Policy(settings.rules, None, True))


def _run(folder: Path) -> run_folder.Run:
    return run_folder.load(folder)


KINDS = (
    Kind("report of ours", "k.ncu-rep", 380, reader.read, sealed=True, beside="facts"),
    Kind("facts", "k.facts.json", 220, lambda file: reader.read(file.with_name("k.ncu-rep")), _show, True, "report"),
    Kind("foreign report", "k.ncu-rep", 130, reader.read, _show),
    Kind("saved profile", "k.json", 400, run_folder.load_profile, lambda found: _show([found]), sealed=True),
    Kind("baseline", "baseline.json", 270, baseline.load, sealed=True),
    Kind("run.json", "run.json", 200, lambda file: _run(file.parent), lambda run: _show(run.subjects), beside="run"),
    Kind("family.toml", "family.toml", 160, lambda file: collection.load(file.parent.parent), _plan),
    Kind("ncu-swizzle.toml", "ncu-swizzle.toml", 120, config.read, _check),
    Kind("pyproject.toml", "pyproject.toml", 120, config.read, _check),
)


SETTINGS = """[check]
max-excessive = 0
baseline = "ncu-swizzle-baseline.json"
allow-recorded = true

[[check.rule]]
kernel = "gemm-.*"
access = "LDSM"
max-degree = 1.5

[[check.rule]]
kernel = "kernel2"
max-regression = 5.0
max-excessive = 4096
"""


@cache
def saved(source: str) -> Profile:
    return reader.read(RECORDINGS / f"{source}.ncu-rep")[0]


@cache
def original(kind: str, source: str) -> bytes:
    """Return the content of a whole file of the kind."""
    recording = RECORDINGS / f"{source}.ncu-rep"
    wrapped = SETTINGS.replace("[check", "[tool.ncu-swizzle.check")
    run = {"kernel": Path(source).name, "profiles": ["k.json"]}
    makers: dict[str, Callable[[], bytes]] = {
        "report of ours": recording.read_bytes,
        "foreign report": recording.read_bytes,
        "facts": lambda: _sealed(json.loads(launch_facts.facts_path(recording).read_text(encoding="utf-8"))),
        "saved profile": lambda: saved(source).to_json().encode(),
        "baseline": lambda: baseline.Baseline((baseline.entry_of([saved(source)]),)).to_json().encode(),
        "run.json": json.dumps(run, indent=1).encode,
        "family.toml": (paths.kernels() / Path(source).parent / "family.toml").read_bytes,
        "ncu-swizzle.toml": SETTINGS.encode,
        "pyproject.toml": f'[project]\nname = "mine"\nversion = "1"\n\n{wrapped}'.encode,
    }
    return makers[kind]()


def _sealed(facts: dict[str, Any]) -> bytes:
    return json.dumps({**facts, "digest": launch_facts.facts_digest(facts)}).encode()


def _beside(kind: Kind, source: str) -> dict[str, bytes]:
    if kind.beside == "facts":
        return {"k.facts.json": original("facts", source)}
    if kind.beside == "report":
        return {"k.ncu-rep": original("foreign report", source)}
    return {"k.json": original("saved profile", source)} if kind.beside == "run" else {}


# ---------------------------------------------------------------------------------------------- kinds of damage

Damage = Callable[[bytes, bytes, random.Random], bytes]  # the file, another of its kind, chance


def _cut(data: bytes, other: bytes, chance: random.Random) -> bytes:
    return data[: chance.randrange(len(data))]


def _flip(data: bytes, other: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    changed[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def _flips(data: bytes, other: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.randrange(2, 60)):
        changed[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def _splice(data: bytes, other: bytes, chance: random.Random) -> bytes:
    return data[: chance.randrange(len(data))] + other[chance.randrange(len(other)) :]


def _hole(data: bytes, other: bytes, chance: random.Random) -> bytes:
    start, end = _span(data, chance)
    return data[:start] + bytes(end - start) + data[end:]


def _lost(data: bytes, other: bytes, chance: random.Random) -> bytes:
    start, end = _span(data, chance)
    return data[:start] + data[end:]


def _twice(data: bytes, other: bytes, chance: random.Random) -> bytes:
    start, end = _span(data, chance)
    return data[:end] + data[start:]


def _noise(data: bytes, other: bytes, chance: random.Random) -> bytes:
    start, end = _span(data, chance)
    return data[:start] + chance.randbytes(end - start) + data[end:]


def _longer(data: bytes, other: bytes, chance: random.Random) -> bytes:
    return data + chance.choice([b"\0", b"\n\n{}", chance.randbytes(40), other])


def _words(data: bytes, other: bytes, chance: random.Random) -> bytes:
    """Put a hostile value in place of a number or a text of a file that people can read."""
    marks = [index for index, byte in enumerate(data) if byte in b":=,["]
    if not marks or data.startswith(b"NVR"):
        return _noise(data, other, chance)
    start = chance.choice(marks) + 1
    end = start + 1
    while end < len(data) and data[end] not in b",]}\n":
        end += 1
    return data[:start] + b" " + chance.choice(HOSTILE) + data[end:]


def _span(data: bytes, chance: random.Random) -> tuple[int, int]:
    start = chance.randrange(len(data))
    return start, min(len(data), start + chance.randrange(1, max(2, min(4096, len(data)))))


HOSTILE = (
    *(b"1e400", b"-1e400", b"NaN", b"nan", b"inf", b"-1", b"9" * 400, b"9" * 5000, b"null", b"true", b"{}", b"[]"),
    *(b'""', b'"x"', b"[" * 100_000, b'{"a":' * 100_000, b'"\\ud800"', b'"\\u0000"', b"\xff\xfe", b"0x7f", b"'''"),
    *(b'"../../../etc/passwd"', b'"2 ** 9999"', b'"n // 0"', b'"(" ', b"\"__import__('os')\"", b"1979-05-27", b"[[1]]"),
)


DAMAGES: Mapping[str, Damage] = {
    "cut": _cut,
    "one bit": _flip,
    "many bits": _flips,
    "spliced with another": _splice,
    "a hole of zeros": _hole,
    "a piece lost": _lost,
    "a piece twice": _twice,
    "noise": _noise,
    "longer": _longer,
    "a hostile value": _words,
}


def cases(count: int, seed: int, only: str = "") -> Iterator[Case]:
    """Yield so many damaged files, the same ones for the same seed; `only` one kind, if it is named."""
    chance = random.Random(seed)
    kinds = [kind for kind in KINDS if only in ("", kind.name)]
    names = list(DAMAGES)
    for number in range(count):
        kind = chance.choices(kinds, [one.weight for one in kinds])[0]
        source, other = chance.sample(REPORTS, 2)
        damage = names[number % len(names)]
        whole = original(kind.name, source)
        data = DAMAGES[damage](whole, original(kind.name, other), chance)
        yield Case(number, kind, damage, source, {**_beside(kind, source), kind.file: data})


# ---------------------------------------------------------------------------------------------- what becomes of them


def attempt(case: Case, folder: Path) -> Outcome:
    """Write the case's files into a folder of its own, read the damaged one, use what was read."""
    place = folder / f"case-{case.number}" / "inside"
    place.mkdir(parents=True)
    for name, data in case.files.items():
        (place / name).write_bytes(data)
    start = time.monotonic()
    what, said = _outcome(case, place / case.kind.file)
    seconds = time.monotonic() - start
    if seconds > SLOWEST_S:
        what, said = HANG, f"{seconds:.0f} s"
    return Outcome(what, said, seconds)


def _outcome(case: Case, file: Path) -> tuple[str, str]:
    whole = original(case.kind.name, case.source)
    try:
        found = case.kind.read(file)
        if case.kind.sealed and case.files[case.kind.file] != whole and not _same(case, found):
            return SILENT, "it was read as if it were whole"
        case.kind.use(found)
    except NcuSwizzleError as error:
        return (REFUSED, str(error)) if str(error) and 1 <= error.exit_code <= 5 else (MUTE, repr(error))
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return CRASH, f"{type(error).__name__}: {error}"[:300]
    return READ, ""


def _same(case: Case, found: Any) -> bool:
    """Say whether what was read is what the whole file says: a space more does not matter."""
    if case.kind.name == "saved profile":
        return bool(found == saved(case.source))
    if case.kind.name == "baseline":
        return bool(found.entries == (baseline.entry_of([saved(case.source)]),))
    return case.kind.name == "facts" and found[0] == _renamed(case.source)


def _renamed(source: str) -> Profile:
    """Return the profile of a recording as it is read under the name that the cases give it."""
    return replace(saved(source), report="k.ncu-rep")


# ---------------------------------------------------------------------------------------------- what is no file


def oddities(folder: Path) -> Iterator[Path]:
    """Yield paths of everything that a user may name in place of a report or a saved profile."""
    folder.mkdir(parents=True, exist_ok=True)
    for suffix in (".ncu-rep", ".json", ".toml"):
        (folder / f"folder{suffix}").mkdir()
        (folder / f"loop{suffix}").symlink_to(folder / f"loop{suffix}")
        (folder / f"dangling{suffix}").symlink_to(folder / "nowhere")
        os.mkfifo(folder / f"pipe{suffix}")
        (folder / f"empty{suffix}").touch()
        (folder / f"binary{suffix}").write_bytes(bytes(range(256)))
        (folder / f"deep{suffix}").write_bytes(b"[" * 200_000)
        (folder / f"locked{suffix}").write_text("{}", encoding="utf-8")
        (folder / f"locked{suffix}").chmod(0)
        (folder / f"device{suffix}").symlink_to("/dev/zero")
    yield from sorted(folder.iterdir())
