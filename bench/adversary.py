"""An adversary of ``fix`` that writes kernels: ``python3 bench/adversary.py --seed S --count N [--screen]``.

Programs are drawn from seeds (bench/adversary_kernels.py): a tile that conflicts, and around it what a patch may break
without the described launch noticing. Each is fixed. If the patch is called proved, both versions run on the CPU
(bench/adversary_cpu.py, g++ and a shim of our own, no emulator) in the described launch and in others, with other
flags, sizes, blocks, seeds and data, and every byte of every buffer is compared. A proved patch that gives something
else is wrong: its sources go to --wrong FOLDER, and the exit code is 1.

With --source no patch is proved: all patches that are written (bench/adversary_source.py) are compared. One that gives
something else in the described launch is left to the proof, which sees it; one that does so in other launches only is
called wrong, although the proof may find that the described launch does not reach it. Neither nvcc nor a GPU is needed
then. --screen is what finds most within a time: first --source, then the programs that are wrong there are fixed.

Prints what became of the programs, and the same by their features: what is never proved tests nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from adversary_cpu import FAILS, LEVELS, REJECTED, SAME, Pair, Verdict, shim, verdicts
from adversary_kernels import Program, program
from adversary_source import Batch, target

from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.engines.settings import Request
from ncu_swizzle.reports.options import EMULATED

PROVED, LEFT_TO_PROOF, REFUSED, UNKNOWN, WRONG, BROKEN, FAULT = WORDS = (
    "proved", "left to the proof", "refused", "unknown", "WRONG", "FIX FAILS", "fault of the bench",
)  # fmt: skip
BAD = (WRONG, BROKEN, FAULT)
WORST_FIRST = (*BAD, PROVED, LEFT_TO_PROOF, REFUSED)
BATCH = 30  # programs to an executable


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of a program: a word, why, and the new text if there is one."""

    program: Program
    word: str
    why: str = ""
    after: str = ""
    patches: int = 0  # compared


def proved_text(made: Program, folder: Path, timeout_s: float) -> tuple[str, str, str]:
    """Fix a program as ``ncu-swizzle fix`` does; return the word, why, and the proved text."""
    from ncu_swizzle.fix.sources import FixQuery, fix_targets  # a parser, which --help does without

    try:
        query = FixQuery(request=Request(engine=EMULATED, timeout_s=timeout_s))
        fixed = fix_targets([target(made, folder)], query)
    except NcuSwizzleError as error:
        return UNKNOWN, f"{type(error).__name__}: {error}", ""
    except Exception as error:
        return BROKEN, repr(error), ""
    (kernel,) = fixed.kernels
    if kernel.proved and fixed.changed:
        return PROVED, "", fixed.after.decode("utf-8")
    why = "; ".join([*(tile.reason for tile in kernel.tiles if tile.reason), *kernel.notes])
    return UNKNOWN if kernel.unknown else REFUSED, why, ""


def end_to_end(programs: list[Program], timeout_s: float) -> list[Outcome]:
    """Fix programs, and compare what is proved."""
    with _scratch() as folder:
        os.environ["XDG_CACHE_HOME"] = str(folder / "cache")  # what is compiled twice within a fix is compiled once
        made = {each.name: proved_text(each, folder, timeout_s) for each in programs}
        shutil.rmtree(folder / "cache", ignore_errors=True)
        texts = [(each, made[each.name][2]) for each in programs]
        pairs = [Pair(name=each.name, program=each, after=text) for each, text in texts if text]
        judged = verdicts(pairs, folder)
    return [_judged(each, *made[each.name], judged.get(each.name)) for each in programs]


def _judged(made: Program, word: str, why: str, after: str, verdict: Verdict | None) -> Outcome:
    if verdict is not None and verdict.wrong:
        word, why = WRONG, f"{verdict.word} in {verdict.launch}"
    elif verdict is not None and verdict.word != SAME:  # also what nvcc takes, and g++ does not
        word, why = FAULT, f"{verdict.word}: {verdict.said}"
    return Outcome(program=made, word=word, why=why, after=after, patches=int(bool(after)))


def source_only(programs: list[Program], _: float) -> list[Outcome]:
    """Compare all patches that the source lets through."""
    with _scratch() as folder:
        found = Batch(programs, folder).candidates()
        pairs = [
            Pair(name=f"{each.name}_{number}", program=each, after=text)
            for each in programs for number, text in enumerate(found[each.name].texts)
        ]  # fmt: skip
        judged = verdicts(pairs, folder)
    outcomes = []
    for each in programs:
        own = [(pair, judged[pair.name]) for pair in pairs if pair.program is each]
        made = [_written(pair, verdict) for pair, verdict in own]
        if found[each.name].failed:
            made.append(Outcome(program=each, word=BROKEN, why=found[each.name].why))
        worst = min(made, key=lambda one: WORST_FIRST.index(one.word), default=None)
        word = FAULT if found[each.name].fault else REFUSED
        nothing = Outcome(program=each, word=word, why=found[each.name].why)
        outcomes.append(worst or nothing)
    return outcomes


def screened(programs: list[Program], timeout_s: float) -> list[Outcome]:
    """Compare all patches that the source lets through, and fix the programs of the wrong ones."""
    made = source_only(programs, timeout_s)
    asked = [outcome.program for outcome in made if outcome.word == WRONG]
    fixed = {outcome.program.name: outcome for outcome in end_to_end(asked, timeout_s)} if asked else {}
    return [_confirmed(outcome, fixed.get(outcome.program.name)) for outcome in made]


def _confirmed(written: Outcome, fixed: Outcome | None) -> Outcome:
    if fixed is None or fixed.word in BAD:
        return fixed or written
    return replace(written, word=LEFT_TO_PROOF, why=f"{fixed.word}: {fixed.why}")


def _written(pair: Pair, verdict: Verdict) -> Outcome:
    why = f"{verdict.word} in {verdict.launch} {verdict.said}"
    if verdict.word == FAILS:
        word = FAULT
    elif verdict.word == REJECTED:
        word = REFUSED  # nvcc rejects it, too
    else:  # the code of other kernels of a source is compared after every proof
        seen = verdict.described or (verdict.launch is not None and verdict.launch.entry != "k")
        word = PROVED if not verdict.wrong else LEFT_TO_PROOF if seen else WRONG
    return Outcome(program=pair.program, word=word, why="" if word == PROVED else why, after=pair.after, patches=1)


@contextlib.contextmanager
def _scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="adversary-") as folder:
        yield Path(folder)


def outcomes(
    seed: int, count: int, how: Callable[[list[Program], float], list[Outcome]], processes: int, timeout_s: float
) -> Iterator[Outcome]:
    """Yield what became of the programs of some seeds, batch by batch."""
    size = max(1, min(BATCH, count // processes))
    batches = [
        [program(number) for number in range(first, min(first + size, seed + count))]
        for first in range(seed, seed + count, size)
    ]
    if processes == 1:
        for batch in batches:
            yield from how(batch, timeout_s)
        return
    for level in LEVELS:  # before the processes part, which then share it
        shim(level)
    with ProcessPoolExecutor(processes, get_context("fork")) as pool:
        for made in pool.map(how, batches, [timeout_s] * len(batches)):
            yield from made


def keep(outcome: Outcome, folder: Path) -> None:
    """Write both versions of a wrong program, and its launches."""
    own = folder / outcome.program.name
    own.mkdir(parents=True, exist_ok=True)
    (own / "before.cu").write_text(outcome.program.text, encoding="utf-8")
    (own / "after.cu").write_text(outcome.after, encoding="utf-8")
    (own / "ncu-swizzle.toml").write_text(outcome.program.settings.replace("k.cu", "before.cu"), encoding="utf-8")
    said = [outcome.word, outcome.why, *sorted(outcome.program.features)]
    (own / "why.txt").write_text("\n".join([*said, *map(str, outcome.program.others), ""]), encoding="utf-8")


def table(made: list[Outcome]) -> str:
    """Return what became of the programs, in all and by feature."""
    words = [word for word in WORDS if any(o.word == word for o in made)]
    features = sorted({feature for outcome in made for feature in outcome.program.features})
    lines = [f"| feature | {' | '.join(words)} |", f"|---|{'---|' * len(words)}"]
    for feature in ("all", *features):
        met = Counter(o.word for o in made if feature == "all" or feature in o.program.features)
        lines.append(f"| {feature} | {' | '.join(str(met[word]) for word in words)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="the first program's; the next ones' follow")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--source", action="store_true", help="compare what the source lets through, without proofs")
    parser.add_argument("--screen", action="store_true", help="the same, and fix those whose patches are wrong there")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=60, help="seconds for each compilation and emulation")
    parser.add_argument("--wrong", type=Path, default=Path("wrong"), help="where the wrong ones go")
    arguments = parser.parse_args()
    start, made = time.monotonic(), list[Outcome]()
    how = source_only if arguments.source else screened if arguments.screen else end_to_end
    for outcome in outcomes(arguments.seed, arguments.count, how, arguments.processes, arguments.timeout):
        made.append(outcome)
        if outcome.word in BAD:
            keep(outcome, arguments.wrong)
            print(f"{outcome.word}: {outcome.program.name}, {outcome.why}", flush=True)
    print(table(made))
    reasons = Counter(outcome.why for outcome in made if outcome.word in (REFUSED, UNKNOWN))
    print("\n".join(f"{count:5} {why[:160]}" for why, count in reasons.most_common(25)))
    met = Counter(outcome.word for outcome in made)
    said = ", ".join(f"{count} {word}" for word, count in met.most_common())
    print(f"\n{len(made)} programs in {time.monotonic() - start:.0f} s: {said}")
    sys.exit(1 if any(met[word] for word in BAD) else 0)


if __name__ == "__main__":
    main()
