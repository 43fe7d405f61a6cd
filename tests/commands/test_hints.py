"""What an error says to type next works when it is typed as printed."""

import itertools
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.marks import NEEDS_ALL, without_gpu
from tests.support.own_kernel import NAMED, TURN_AND_BEYOND
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
PROJECT = {"ncu-swizzle.toml": ENTRY}
UNTRUSTED = {"ncu-swizzle.toml": ENTRY.replace("grid", 'nvcc = ["--time=-"]\ngrid')}

LAUNCH = "--engine emulated --grid 1 --block 32,32"
ARGS = "--arg x=float32[1024]:random --arg y=float32[1024]:out --arg n=int32:32"
RECORDED = "profile kernel2 --engine recorded --baseline none --reference none"

# What was typed, which part of the hint is typed next, and the project's files. A part that is no whole command
# is options for the same one.
CASES: tuple[tuple[str, str, dict[str, str]], ...] = (
    (f"profile turn.cu {LAUNCH}", "ncu-swizzle profile turn.cu .*", {}),
    (f"profile two.cu {LAUNCH} {ARGS}", "--kernel turn", {}),
    (f"profile two.cu {LAUNCH} {ARGS} --kernel turned", '--kernel "turn"', {}),
    ("lint turn.cu two.cu", "ncu-swizzle init turn.cu two.cu", {}),
    ("lint turn.cu", "ncu-swizzle lint turn.cu .*--trust.*|ncu-swizzle lint --trust .*", UNTRUSTED),
    (f"profile turn.cu {LAUNCH} {ARGS} --shared 400000", "--shared [0-9]+", {}),
    ("profile bound.ptx --engine emulated --grid 1 --block 32 --arg y=float32[1]:out", "--block 64,1,1", {}),
    (f"profile turn.cu {LAUNCH} --arg x=float32[1024] --arg y=float32[1024]:out --arg n=int32:32",
     r"--arg x=float32\[1024\]:random", {}),
    ("explain turn --pad 1 --elem 2", "--elem 4", PROJECT),
    ("profile kernel9", "ncu-swizzle list", {}),
    (f"{RECORDED} --problem seq=100", "--problem seq=4096", {}),
    ("profile ./app", r"ncu-swizzle profile -- \./app", {}),
    ("profile --frob", "ncu-swizzle profile --help", {}),
    ("check kernel2 --engine recorded", "--allow-recorded", {}),
    ("explain wgmma-128 --show mapping", "ncu-swizzle explain wgmma-128 --show map", {}),
    ('explain "(64,64):(64,1)" --elem 2 --swizzle bad', "--swizzle 3,2,3", {}),
    ('explain "(64,64):(64,1)" --show wavefronts', r"--write rows:16 --read column", {}),
)  # fmt: skip


@NEEDS_ALL
@without_gpu
@pytest.mark.parametrize(("line", "part", "files"), CASES, ids=[case[0][:60] for case in CASES])
def test_a_hint_works_when_it_is_typed(line: str, part: str, files: dict[str, str], typed: Typed, work: Path) -> None:
    for name, text in {**FILES, **files}.items():
        (work / name).write_text(text)
        (work / name).chmod(0o755)
    refused = typed(line)
    assert refused.returncode in (2, 3, 5), refused.stdout
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
