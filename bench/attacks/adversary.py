"""An adversary of ``fix`` that writes kernels: ``python3 bench/attacks/adversary.py --seed S --count N``.

Programs are drawn from seeds (bench/attacks/adversary_kernels.py): a tile that conflicts, and around it what a patch
may break without the described launch noticing. Each is fixed. If the patch is called proved, both versions run on the
CPU (bench/attacks/adversary_cpu.py, g++ and a shim of our own, no emulator) in the described launch and in others, with
other flags, sizes, blocks, seeds and data, and every byte of every buffer is compared. A proved patch that gives
something else is wrong: its sources go to --wrong FOLDER, and the exit code is 1.

Prints what became of the programs, now and then and at the end, there by their features, too: what is never proved
tests nothing. --list FILE gets a line for each program as it is judged. After --seconds, what is not fixed yet is left
out, and what is proved is still compared.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench.attacks.adversary_cpu import LEVELS, SAME, Pair, Verdict, shim, verdicts
from bench.attacks.adversary_kernels import Program, program
from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.engines.settings import Request
from ncu_swizzle.kernels import naming, project
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.reports.options import EMULATED

PROVED, REFUSED, UNKNOWN, WRONG, BROKEN, FAULT = WORDS = (
    "proved", "refused", "unknown", "WRONG", "FIX FAILS", "fault of the bench",
)  # fmt: skip
BAD = (WRONG, BROKEN, FAULT)
BATCH = 5  # programs to an executable
TOLD_S = 15.0  # between two tallies


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of a program: a word, why, and the new text if there is one."""

    program: Program
    word: str
    why: str = ""
    after: str = ""
    patches: int = 0  # compared


def target(program: Program, folder: Path) -> Target:
    """Return a program's kernel, written to a folder of its own."""
    own = folder / program.name
    own.mkdir(parents=True, exist_ok=True)
    (own / "k.cu").write_text(program.text, encoding="utf-8")
    (own / project.OWN).write_text(program.settings, encoding="utf-8")
    (spec,) = project.specs(project.project_in(own / project.OWN))
    family = naming.family_of_spec(spec)
    return Target(family, family.kernels[0], family.problem())


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


def end_to_end(programs: list[Program], timeout_s: float, until: float = math.inf) -> list[Outcome]:
    """Fix programs, as many as there is time for until a moment, and compare what is proved."""
    with _scratch() as folder:
        os.environ["XDG_CACHE_HOME"] = str(folder / "cache")  # what is compiled twice within a fix is compiled once
        made: dict[str, tuple[str, str, str]] = {}
        with contextlib.suppress(OutOfTime), _ended_at(until):
            for each in programs:
                made[each.name] = proved_text(each, folder, timeout_s)
        programs = [each for each in programs if each.name in made]
        shutil.rmtree(folder / "cache", ignore_errors=True)
        texts = [(each, made[each.name][2]) for each in programs]
        pairs = [Pair(name=each.name, program=each, after=text) for each, text in texts if text]
        judged = verdicts(pairs, folder)
    return [_judged(each, *made[each.name], judged.get(each.name)) for each in programs]


class OutOfTime(BaseException):
    """The program's time has ended; no failure of `fix`, which Exception would be."""


@contextlib.contextmanager
def _ended_at(moment: float) -> Iterator[None]:
    """Raise OutOfTime at a moment, whatever is being done."""

    def end(*_: object) -> None:
        raise OutOfTime

    if (left := moment - time.monotonic()) <= 0:
        raise OutOfTime
    signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, left if math.isfinite(left) else 0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _judged(made: Program, word: str, why: str, after: str, verdict: Verdict | None) -> Outcome:
    if verdict is not None and verdict.wrong:
        word, why = WRONG, f"{verdict.word} in {verdict.launch}"
    elif verdict is not None and verdict.word != SAME:  # also what nvcc takes, and g++ does not
        word, why = FAULT, f"{verdict.word}: {verdict.said}"
    return Outcome(program=made, word=word, why=why, after=after, patches=int(bool(after)))


@contextlib.contextmanager
def _scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="adversary-") as folder:
        yield Path(folder)


def outcomes(seed: int, count: int, processes: int, timeout_s: float, until: float = math.inf) -> Iterator[Outcome]:
    """Yield what became of the programs of some seeds, batch by batch, as far as there is time until a moment."""
    size = max(1, min(BATCH, count // processes))
    batches = [
        [program(number) for number in range(first, min(first + size, seed + count))]
        for first in range(seed, seed + count, size)
    ]
    if processes == 1:
        for batch in batches:
            yield from end_to_end(batch, timeout_s, until)
        return
    for level in LEVELS:  # before the processes part, which then share it
        shim(level)
    with ProcessPoolExecutor(processes, get_context("fork")) as pool:
        running = [pool.submit(end_to_end, batch, timeout_s, until) for batch in batches]
        for made in as_completed(running):
            yield from made.result()


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
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=60, help="seconds for each compilation and emulation")
    parser.add_argument("--seconds", type=float, default=math.inf, help="after which nothing more is fixed")
    parser.add_argument("--list", type=Path, help="a line for each program")
    parser.add_argument("--wrong", type=Path, default=Path("wrong"), help="where the wrong ones go")
    arguments = parser.parse_args()
    start, made = time.monotonic(), list[Outcome]()
    until, told = start + arguments.seconds, start
    with contextlib.ExitStack() as opened:
        lines = opened.enter_context(arguments.list.open("w", encoding="utf-8")) if arguments.list else None
        for outcome in outcomes(arguments.seed, arguments.count, arguments.processes, arguments.timeout, until):
            made.append(outcome)
            said = f"{outcome.word}: {outcome.program.name}, {' '.join(outcome.why.split())}"
            if lines:
                print(said, file=lines, flush=True)
            if outcome.word in BAD:
                keep(outcome, arguments.wrong)
                print(said, flush=True)
            if time.monotonic() > told + TOLD_S:
                told = time.monotonic()
                print(tally(made, told - start), flush=True)
    print(table(made))
    reasons = Counter(outcome.why for outcome in made if outcome.word in (REFUSED, UNKNOWN))
    print("\n".join(f"{count:5} {why[:160]}" for why, count in reasons.most_common(25)))
    print(f"\n{tally(made, time.monotonic() - start)}")
    sys.exit(1 if any(outcome.word in BAD for outcome in made) else 0)


def tally(made: list[Outcome], seconds: float) -> str:
    """Return in a line what became of the programs so far; the CPU is that of processes that have ended."""
    said = ", ".join(f"{count} {word}" for word, count in Counter(outcome.word for outcome in made).most_common())
    took = sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return f"{len(made)} programs in {seconds:.0f} s, {took:.0f} s of CPU: {said}"


if __name__ == "__main__":
    main()
