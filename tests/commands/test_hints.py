"""What an error says to type next works when it is typed as printed."""

import itertools
import re
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.marks import NEEDS_ALL, without_gpu
from tests.support.own_kernel import NAMED, TURN_AND_BEYOND
from tests.support.places import RECORDINGS, table
from tests.support.process import Typed

TURN = TURN_AND_BEYOND[: TURN_AND_BEYOND.index("extern __shared__")]
ENTRY = '[kernel.turn]\nsource = "turn.cu"\ngrid = 1\nblock = "32,32"\nargs = ["x=float32[1024]:ones", ' \
        '"y=float32[1024]:out", "n=int32:32"]\n'  # fmt: skip
BOUND = """.version 8.0
.target sm_90
.address_size 64
.visible .entry bound(.param .u64 y) .reqntid 64, 1, 1 { ret; }
"""
FILES = {"turn.cu": TURN, "two.cu": TURN_AND_BEYOND, "named.cu": NAMED, "bound.ptx": BOUND, "app": "#!/bin/sh\n"}


PROJECTS = {
    "": {},
    "project": {"ncu-swizzle.toml": ENTRY},
    "untrusted": {"ncu-swizzle.toml": ENTRY.replace("grid", 'nvcc = ["--time=-"]\ngrid')},
}
# A part of a hint that is no whole command is options for the same one.
HINTS = table("facts/hints.toml")["hints"]


@NEEDS_ALL
@without_gpu
@pytest.mark.parametrize(("line", "part", "described"), HINTS, ids=[hint[0][:60] for hint in HINTS])
def test_a_hint_works_when_it_is_typed(line: str, part: str, described: str, typed: Typed, work: Path) -> None:
    for name, text in {**FILES, **PROJECTS[described]}.items():
        (work / name).write_text(text)
        (work / name).chmod(0o755)
    for name, recording in {"mine": "xor", "conflicts": "plain"}.items():
        shutil.copy(RECORDINGS / "transpose" / f"transpose-{recording}.ncu-rep", work / f"{name}.ncu-rep")
    refused = typed(line)
    assert refused.returncode in (1, 2, 3, 5), refused.stdout
    hint = refused.stderr.partition("try: ")[2] or refused.stdout
    proposed = re.search(part, hint)
    assert proposed, hint
    given = shlex.split(proposed[0])
    done = typed("", *(given[1:] if given[0] == "ncu-swizzle" else changed(shlex.split(line), given)))
    assert done.returncode != 2, (given, done.stderr)
    failure = refused.stderr.splitlines()[0] if refused.stderr else "inconclusive"
    assert failure not in done.stderr + done.stdout, (given, done.stderr)


def changed(typed: Sequence[str], options: Sequence[str]) -> list[str]:
    """Return a command with options replaced or added; of --arg, the one of the same name."""

    def name(option: str, value: str) -> str:
        return f"{option} {value.partition('=')[0]}" if option == "--arg" else option

    named = {name(*pair) for pair in itertools.pairwise([*options, ""])}
    dropped = [at for at, pair in enumerate(itertools.pairwise([*typed, ""])) if name(*pair) in named]
    kept = [(at, word) for at, word in enumerate(typed) if at not in dropped and at - 1 not in dropped]
    place = min(dropped, default=len(typed))
    return [*(word for at, word in kept if at < place), *options, *(word for at, word in kept if at > place)]
