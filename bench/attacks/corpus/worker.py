"""Cases one after the other in a process that has loaded everything, with a cache that is warm."""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

from bench.attacks.corpus import caches, intact, kinds, originals, outcome
from bench.attacks.corpus.attempt import LIMIT_S, Ran, attempt
from bench.attacks.corpus.case import Case, Draft

REAL = 10  # of so many cases of caches, one starts an interpreter
WARMING_S = 300.0


class Worker:
    """Runs cases in folders below its own; `close` removes that."""

    def __init__(self, warm: Path | None = None, limit_s: float = LIMIT_S) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="damage-"))
        self.limit_s = limit_s
        self._clean: dict[tuple[str, ...], Ran] = {}
        self.warm = warm or self._warmed()

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def outcome(self, case: Case, keep: bool = False) -> outcome.Outcome:
        """Run a case; a hang is only one if it hangs twice, as another process may have had the processor."""
        ran = self._ran(case.draft, case, keep)
        if ran.hung:
            ran = self._ran(case.draft, case, keep)
        return outcome.judged(case.draft, ran, self._clean_run(case.draft) if case.draft.cache else None)

    def _ran(self, draft: Draft, case: Case, keep: bool) -> Ran:
        folder = self.folder / "case"
        shutil.rmtree(folder, ignore_errors=True)
        try:
            return attempt(draft, folder, self.warm, self.limit_s, bool(draft.cache) and case.number % REAL == 0)
        finally:
            if not keep:
                shutil.rmtree(folder, ignore_errors=True)

    def _clean_run(self, draft: Draft) -> Ran:
        key = (draft.source, *draft.command)
        if key not in self._clean:
            from dataclasses import replace

            clean = replace(draft, cache="")
            self._clean[key] = attempt(clean, self.folder / "case", self.warm, WARMING_S)
            shutil.rmtree(self.folder / "case")
        return self._clean[key]

    def _warmed(self) -> Path:
        """Fill a cache with what every intact file needs, and see that these are read."""
        warm = self.folder / "warm"
        warm.mkdir()
        files = {"all.ncu-rep": intact.joined(), "k.ncu-rep": originals.report("basic"), **intact.project_files()}
        for command, outputs in ((("rules", "apply", "all.ncu-rep"), ()), *caches.COMMANDS):
            ran = attempt(Draft("none", "", files, command, False, outputs), self.folder / "case", warm, WARMING_S)
            assert ran.code in (0, 1, 5), (command, ran, ran.stderr)
            assert b"Traceback" not in ran.stderr, (command, ran.stderr)
            shutil.rmtree(warm)
            shutil.move(self.folder / "case" / "cache", warm)
            shutil.rmtree(self.folder / "case")
        return warm


@cache
def prepare() -> None:
    """Load everything before the first fork, and read what is to be damaged."""
    from ncu_swizzle import cli  # noqa: F401
    from ncu_swizzle.render import page  # noqa: F401
    from tests.support import loaded  # noqa: F401

    for source in originals.RECORDED:
        originals.baseline_content(source)
    gc.collect()
    gc.freeze()


def one(number: int, seed: int, only: str) -> tuple[Case, outcome.Outcome]:
    """Make and run one case in a worker of its own, and leave its folder."""
    prepare()
    worker = Worker()
    case = kinds.case(number, seed, only)
    result = worker.outcome(case, keep=True)
    print(f"its folder is {worker.folder / 'case'}; the command runs in work/, process {os.getpid()}")
    return case, result
