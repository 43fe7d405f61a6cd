"""The checker of ``ncu-swizzle prove`` against mistakes: ``python3 bench/attacks/prove.py --jobs 16 [--traps FOLDER]``.

Right changes are those written by hand for the kernels of tests/data/fix, the variants of the catalogue against their
baselines, and, of what a regular expression makes of the adversary's programs (--programs) and of a folder of traps,
those that are right. From each, mutants are made in its PTX and in its source (bench/attacks/prove_mutants.py).

Whatever is proved although it is a mutant goes to an oracle, which knows nothing of the checker: both versions are
assembled without optimisation, and emulated in several launches with random data, sizes and flags; everything that the
blocks store is compared. If one differs, the proof is wrong, and the exit code is 1. If none does, the mutant counts as
equivalent and is listed with --list: so that a person may look.

Prints what became of the right changes and of the mutants. --list FILE gets one line each.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
import tomllib
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import TextIO

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench.attacks.adversary_cpu import Pair, verdicts
from bench.attacks.adversary_kernels import THREADS, program
from bench.attacks.prove_mutants import in_a_hurry, mutants_of_ptx, mutants_of_source
from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.certify.checker import certify
from ncu_swizzle.certify.modules import renamed
from ncu_swizzle.certify.ptx import parse
from ncu_swizzle.certify.replay import Assembled
from ncu_swizzle.certify.units import KnownLaunch
from ncu_swizzle.certify.verdict import KernelVerdict, ProofOutcome
from ncu_swizzle.cubin import names
from ncu_swizzle.emulate.execution import Execution, difference, untold
from ncu_swizzle.engines import emulated_launch
from ncu_swizzle.kernels import catalog, halves, naming
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.halves import Tree
from ncu_swizzle.kernels.options import LaunchOptions
from ncu_swizzle.kernels.project import KernelSpec
from ncu_swizzle.kernels.toolchain import Toolchain

PROVED, EQUIVALENT, UNSURE, WRONG, REFUTED, UNPROVED, INVALID, CRASH = (
    "proved", "proved, the same in all launches", "proved, not emulated", "PROVED, AND WRONG", "refuted", "not proved",
    "not compiled", "CRASH",
)  # fmt: skip
BAD = (WRONG, CRASH)
LAUNCHES, EMULATION_S = 6, 20.0
BATCH = 10  # programs of the adversary that one process prepares


@dataclass(frozen=True, kw_only=True)
class Change:
    """Two versions of a kernel: PTX with one symbol for both, and the launch that is described of each."""

    name: str
    before: str
    after: str
    symbol: str
    targets: tuple[Target, Target]
    texts: tuple[str, str] = ("", "")  # of the source, if mutants can be made of it

    @property
    def launch(self) -> KnownLaunch:
        old, new = map(KnownLaunch.of, self.targets)
        return old.followed_by(new)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A change with another new version, as PTX or as a source; "" for the change as it is."""

    change: Change
    what: str = ""
    ptx: str = ""
    text: str = ""
    expected: str = ""  # what is known of it: "wrong", by an oracle of its own

    @property
    def kind(self) -> str:
        return f"{self.change.name.partition(' ')[0]}, {'PTX' if self.ptx else 'source' if self.text else 'right'}"


@dataclass(frozen=True, kw_only=True)
class Judged:
    case: Case
    word: str
    why: str = ""
    seconds: float = 0.0


# ----------------------------------------------------------------------------------------------- two versions, compiled


def ptx_of(target: Target) -> str:
    """Return the unoptimised PTX of a kernel's unit. Raises UsageError if it does not compile."""
    unit = replace(halves.of_target(target), device_only=True)
    tree = Tree(unit.source.parent, unit.source.parent)
    return halves.compiled(unit, unit.archs[0], Toolchain(), tree, cached=False).ptx


def with_text(target: Target, text: str, folder: Path) -> Target:
    """Return a kernel with another source, in a folder of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    family = target.family
    for header in (*family.folder.glob("*.cuh"), *family.folder.glob("*.h")):
        shutil.copy(header, folder)
    (folder / target.source.name).write_text(text, encoding="utf-8")
    options = (*family.options, f"-I{family.folder}", *(f"-I{each}" for each in family.include_folders()))
    return replace(target, family=replace(family, folder=folder, standalone=True, options=options))


def change_of(name: str, before: Target, after: Target, texts: tuple[str, str] = ("", "")) -> Change:
    """Compile both versions of a change."""
    old, new = ptx_of(before), ptx_of(after)
    first, second = parse(old).kernels, parse(new).kernels
    symbol = names.find_among(first, before.kernel.entry, "before")
    new = renamed(new, names.find_among(second, after.kernel.entry, "after"), symbol)
    return Change(name=name, before=old, after=new, symbol=symbol, targets=(before, after), texts=texts)


# ---------------------------------------------------------------------------------------- right changes, and hasty ones


Item = tuple[str, ...]  # what is prepared by one process: of which kind, and which


def items(given: argparse.Namespace) -> list[Item]:
    """Return what there is to prepare."""
    from tests.support import fixes

    found: list[Item] = [("fix", name) for name in fixes.FIXES]
    found += [("by-hand", name) for name in fixes.adversaries()]
    for family in catalog.shipped().families:
        kernels = [kernel for kernel in family.kernels if not kernel.library]
        found += [("catalogue", kernel.baseline, kernel.name) for kernel in kernels if kernel.baseline]
    last = given.seed + given.programs
    found += [("adversary", str(at), str(min(at + BATCH, last))) for at in range(given.seed, last, BATCH)]
    if given.traps:
        found += [("trap", str(path)) for path in sorted(given.traps.iterdir()) if (path / "args.json").exists()]
    return [item for item in found if " ".join(item).startswith(given.only)]


def prepared(item: Item, folder: Path) -> list[Case]:
    """Return the cases of an item; none, and why, if it does not compile."""
    kind, name, *more = item
    own = folder / "-".join(item).replace("/", "_")
    own.mkdir(parents=True)
    try:
        if kind == "adversary":
            return list(_of_programs(range(int(name), int(more[0])), own))
        return list({"fix": _fix, "by-hand": _by_hand, "catalogue": _variants, "trap": _trap}[kind](own, name, *more))
    except NcuSwizzleError as error:
        print(f"{' '.join(item)}: left out, {str(error).splitlines()[0]}", flush=True)
        return []


def _fix(folder: Path, name: str) -> Iterator[Case]:
    """Yield the change of a kernel of tests/data/fix."""
    from tests.support import fixes

    target, fix = fixes.specs()[name], fixes.FIXES[name]
    texts = target.source.read_text(encoding="utf-8"), fix.text(target)
    yield Case(change=change_of(f"fix {name}", target, fixes.with_text(target, texts[1], folder, fix.shared), texts))


def _by_hand(folder: Path, name: str) -> Iterator[Case]:
    """Yield the right change of one of its adversaries, and the wrong ones."""
    from tests.support import fixes

    adversary = fixes.adversaries()[name]
    change = change_of(
        f"by-hand {name}", adversary.target, with_text(adversary.target, adversary.right, folder / "right")
    )
    yield Case(change=change)
    for n, what in enumerate(adversary.wrong):
        wrong = with_text(adversary.target, adversary.version(what), folder / str(n))
        yield Case(change=change, what=what, ptx=change_of("", adversary.target, wrong).after, expected="wrong")


def _variants(folder: Path, before: str, after: str) -> Iterator[Case]:  # noqa: ARG001 - every kind gets a folder
    """Yield two variants of a family, if they are launched alike."""
    old, new = (catalog.shipped().target(name) for name in (before, after))
    if old.launch.block == new.launch.block:
        yield Case(change=change_of(f"catalogue {before} {after}", old, new))


def _of_programs(seeds: range, folder: Path) -> Iterator[Case]:
    """Yield hasty changes of the adversary's programs; the CPU says which are wrong."""
    programs = [program(number) for number in seeds]
    texts = {each.name: in_a_hurry(each.text) for each in programs}
    pairs = [
        Pair(name=f"{each.name}_{number}", program=each, after=text)
        for each in programs
        for number, (_, text) in enumerate(texts[each.name])
    ]
    answers = verdicts(pairs, folder)
    for each in programs:
        launch = LaunchOptions(
            entry="k",
            grid=str(each.described.blocks),
            block=THREADS,
            shared=str(each.dynamic),
            args=tuple(tomllib.loads(each.settings)["kernel"]["k"]["args"]),
        )
        own = folder / each.name
        own.mkdir()
        (own / "k.cu").write_text(each.text, encoding="utf-8")
        wrong = [answers[f"{each.name}_{number}"].wrong for number in range(len(texts[each.name]))]
        yield from _hasty(f"adversary {each.name}", _target(own, launch), texts[each.name], wrong)


def _trap(folder: Path, trap: str) -> Iterator[Case]:
    """Yield hasty changes of a kernel in a folder: k.cu, and args.json with the options that describe its launch."""
    shutil.copytree(trap, folder, dirs_exist_ok=True)
    before = described(folder, json.loads((folder / "args.json").read_text(encoding="utf-8")))
    texts = in_a_hurry((folder / "k.cu").read_text(encoding="utf-8"))
    yield from _hasty(f"trap {Path(trap).name}", before, texts, [None] * len(texts))


def described(folder: Path, words: Sequence[str]) -> Target:
    """Return the kernel of k.cu whose launch some words describe, as they follow ``fix k.cu``."""
    given: dict[str, list[str]] = {}
    for name, value in zip(words[::2], words[1::2], strict=False):
        given.setdefault(name, []).append(value)
    launch = LaunchOptions(
        entry=given.get("--kernel", [""])[0],
        grid=given.get("--grid", ["1"])[0],
        block=given.get("--block", ["32"])[0],
        shared=given.get("--shared", ["0"])[0],
        args=tuple(given.get("--arg", [])),
    )
    options = [f"-D{text}" for name in ("-D", "--define") for text in given.get(name, [])]
    options += [f"-I{folder / text}" for text in given.get("-I", [])]
    options += [f"-std={text}" for text in given.get("--std", [])]
    return _target(folder, launch, options)


def _target(folder: Path, launch: LaunchOptions, options: Sequence[str] = ()) -> Target:
    spec = KernelSpec(name="k", source=folder / "k.cu", launch=launch, options=tuple(options))
    family = naming.family_of_spec(spec)
    return Target(family, family.kernels[0], family.problem())


def _hasty(name: str, before: Target, texts: Sequence[tuple[str, str]], wrong: Sequence[bool | None]) -> Iterator[Case]:
    text = before.source.read_text(encoding="utf-8")
    change = change_of(name, before, before, (text, text))
    for (what, changed), is_wrong in zip(texts, wrong, strict=True):
        yield Case(change=change, what=what, text=changed, expected="wrong" if is_wrong else "")


def mutants(change: Change, ptx: int, source: int, seed: int) -> Iterator[Case]:
    """Yield some mutants of a right change."""
    draw = random.Random(f"{seed} {change.name}")
    for made, most, of in (
        (mutants_of_ptx(change.after, change.symbol), ptx, "ptx"),
        (mutants_of_source(*change.texts) if change.texts[0] else [], source, "text"),
    ):
        for what, text in draw.sample(made, min(most, len(made))):
            yield Case(change=change, what=what, **{of: text})


# --------------------------------------------------------------------------------------------------- checker and oracle


def judged(case: Case) -> Judged:
    """Return what the checker says of a case, and the oracle of what it proves."""
    start = time.process_time()
    word, why = CRASH, ""
    try:
        word, why = _judged(case)
    except NcuSwizzleError as error:
        word, why = INVALID, str(error).splitlines()[0]
    except Exception:
        why = traceback.format_exc(limit=-3).replace("\n", " | ")
    return Judged(case=case, word=word, why=why, seconds=time.process_time() - start)


def _judged(case: Case) -> tuple[str, str]:
    change = case.change
    after, target = case.ptx or change.after, change.targets[1]
    if case.text:
        with tempfile.TemporaryDirectory(prefix="prove-") as folder:
            target = with_text(target, case.text, Path(folder))
            after = change_of("", change.targets[0], target).after
    try:
        known = change.launch
        verdict = certify(
            change.before, after, kernel=change.symbol, block=known.block, dynamic=known.dynamic, maps=known.maps
        )
        rest = _of_others(change.before, after, change.symbol) if verdict.outcome is ProofOutcome.PROVED else ()
    except ValueError as error:
        return INVALID, str(error)
    for each in (verdict, *rest):
        if each.outcome is not ProofOutcome.PROVED:
            found = each.counterexample.what if each.counterexample else each.obstacle.reason if each.obstacle else ""
            return (REFUTED if each.outcome is ProofOutcome.REFUTED and each is verdict else UNPROVED), found
    if case.expected == "wrong":
        return WRONG, "another oracle says so"
    if not (case.ptx or case.text):
        return PROVED, ", ".join(verdict.assumptions)
    return oracle(change, after)


def _of_others(before: str, after: str, symbol: str) -> Iterator[KernelVerdict]:
    """Yield the verdicts on the unit's other kernels: nobody says how they are launched."""
    old, new = parse(before), parse(after)
    for other in old.kernels:
        if other != symbol and other in new.kernels and old.code(other) != new.code(other):
            yield certify(before, after, kernel=other)


def oracle(change: Change, after: str) -> tuple[str, str]:
    """Emulate both versions in several launches; return whether they do the same."""
    tools = Toolchain(timeout_s=EMULATION_S)
    versions = [Assembled(text, change.symbol, tools) for text in (change.before, after)]
    draw = random.Random(change.name)
    compared = 0
    why = ""
    for number in range(LAUNCHES):
        argument_draw = draw.random()
        old = _old(change, versions[0], number, argument_draw)
        if isinstance(old, str):
            why = old
            continue
        try:
            new = _results(versions[1], change.targets[1], number, argument_draw)
        except NcuSwizzleError as error:
            return WRONG, f"the new version fails: {str(error).splitlines()[0]}"
        if lost := untold(old) or untold(new):
            why = lost
            continue
        compared += 1
        if found := difference(old, new):
            return WRONG, f"launch {number}: {found}"
    return (EQUIVALENT, f"{compared} launches") if compared else (UNSURE, why)


_OLD: dict[tuple[str, int], Execution | str] = {}  # of the old versions, in this process


def _old(change: Change, version: Assembled, number: int, drawn: float) -> Execution | str:
    """Return what the old version stores in a launch, or why it is not one of its launches."""
    if (change.name, number) not in _OLD:
        try:
            _OLD[change.name, number] = _results(version, change.targets[0], number, drawn)
        except NcuSwizzleError as error:
            _OLD[change.name, number] = str(error)
    return _OLD[change.name, number]


def _results(version: Assembled, target: Target, number: int, drawn: float) -> Execution:
    """Return what some blocks of a launch store: the described one, then others, with other integers."""
    draw = random.Random(drawn)
    family = target.family
    arguments = tuple(
        replace(argument, value=str(draw.choice((0, 1, 2, 7, draw.randint(0, 64)))))
        if number and not argument.shape and "int" in argument.dtype and draw.random() < 0.5
        else argument
        for argument in family.arguments
    )
    varied = replace(target, family=replace(family, arguments=arguments))
    launch = emulated_launch.launch_of(varied, version.cubin, version.symbol, sample=number + 1)
    grid = launch.grid
    blocks = {(0, 0, 0), (grid[0] - 1, grid[1] - 1, grid[2] - 1), tuple(draw.randrange(size) for size in grid)}
    return version.executed(launch, blocks, number, EMULATION_S)


# ----------------------------------------------------------------------------------------------------------- the bench


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ptx", type=int, default=40, help="mutants of a right change in its PTX")
    parser.add_argument("--source", type=int, default=12, help="mutants of a right change in its source")
    parser.add_argument("--programs", type=int, default=0, help="programs of the adversary")
    parser.add_argument("--traps", type=Path, help="a folder of kernels with args.json")
    parser.add_argument("--only", default="", help="changes whose names begin with this")
    parser.add_argument("--limit", type=float, default=540, help="seconds, after which no more is begun")
    parser.add_argument("--list", type=Path, help="a line for each case")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="prove-bench-") as folder:
        sys.exit(run(given, Path(folder)))


def run(given: argparse.Namespace, folder: Path) -> int:
    start = time.monotonic()
    made: list[Judged] = []
    with ExitStack() as opened:
        pool = opened.enter_context(ProcessPoolExecutor(given.jobs, get_context("fork")))
        lines = opened.enter_context(given.list.open("w", encoding="utf-8")) if given.list else None
        found = items(given)
        cases = [case for each in pool.map(prepared, found, [folder] * len(found)) for case in each]
        print(f"{len(cases)} cases of {len(found)} sources after {time.monotonic() - start:.0f} s", flush=True)
        for stage in ("changes", "mutants"):
            if stage == "mutants":
                right = [one.case.change for one in made if one.word == PROVED]
                cases = [case for change in right for case in mutants(change, given.ptx, given.source, given.seed)]
                random.Random(given.seed).shuffle(cases)
                print(f"{len(cases)} mutants of {len(right)} proved changes", flush=True)
            running = [pool.submit(judged, case) for case in cases]
            try:
                for future in as_completed(running, timeout=max(0.0, start + given.limit - time.monotonic())):
                    made.append(one := future.result())
                    _tell(one, lines)
            except TimeoutError:
                left = sum(future.cancel() for future in running)
                print(f"{left} of {len(running)} {stage} were not begun within {given.limit:.0f} s", flush=True)
                break
    print(table(made))
    wrong = sum(one.word in BAD for one in made)
    slowest, total = max((one.seconds for one in made), default=0.0), sum(one.seconds for one in made)
    took = f"{time.monotonic() - start:.0f} s; CPU {total:.0f} s, {slowest:.1f} s for the slowest"
    print(f"\n{len(made)} cases, {wrong} wrong, in {took}")
    return 1 if wrong else 0


def _tell(one: Judged, lines: TextIO | None) -> None:
    """Write a line about a case; print it, too, if it is wrong, or right and not proved."""
    case = one.case
    said = f"{one.word}: {case.change.name}: {case.what or 'as it is'}: {one.why} ({one.seconds:.1f} s)"
    if lines:
        print(said, file=lines, flush=True)
    if one.word in BAD or not (case.what or one.word == PROVED):
        print(said, flush=True)


def table(made: Sequence[Judged]) -> str:
    """Return what became of the cases, by kind."""
    words = [
        word
        for word in (PROVED, EQUIVALENT, UNSURE, REFUTED, UNPROVED, INVALID, *BAD)
        if any(o.word == word for o in made)
    ]
    lines = [f"| cases | {' | '.join(words)} |", f"|---|{'---|' * len(words)}"]
    for kind in ("all", *sorted({one.case.kind for one in made})):
        met = Counter(one.word for one in made if kind in ("all", one.case.kind))
        lines.append(f"| {kind} | {' | '.join(str(met[word]) for word in words)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
