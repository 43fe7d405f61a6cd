"""Wrong versions of proved fixes are refused: ``python3 bench/fix_mutants.py [NAME …] [--of-each 24]``.

A mutant of a fix of tests/data/fix forgets an edit, swaps subscripts, or has another number, operator or name. Not
every mutant is wrong: ``x ^ y & 31`` and ``x ^ y`` are the same for y below 32. One that is proved must leave the same
bytes in many blocks, for random inputs. Prints the fates of each fix's mutants, and ends with 1 if
a wrong one is proved. No GPU.
"""

from __future__ import annotations

import argparse
import difflib
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from ncu_swizzle.engines.emulation import EmulationSettings, Executable, executable
from ncu_swizzle.fix import certified, trial
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.options import CatalogOptions
from tests.support.fixes import FIXES, specs, with_text

TIMEOUT_S = 600
_TOKEN = re.compile(
    r"\s+|//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\])*\"|\d[\w.]*|\w+|<<=?|>>=?|[-+*/%^&|=!<>]=|&&|\|\||::|->|.", re.DOTALL
)
_OTHER = {
    "^": ("+", "|", "&"), "+": ("-", "^"), "-": ("+",), "*": ("+",), "/": ("%",), "%": ("/", "&"), "&": ("|", "^"),
    "|": ("&",), "<<": (">>",), ">>": ("<<",),
}  # fmt: skip
_WORD = re.compile(r"[A-Za-z_]\w*")
_KEYWORDS = frozenset(("__shared__", "auto", "const", "float", "for", "if", "int", "return", "sizeof", "unsigned", "T"))


@dataclass(frozen=True)
class Mutant:
    """A wrong version, and what was done to it."""

    what: str
    text: str


def mutants(before: str, after: str) -> Iterator[Mutant]:
    """Yield each mutant of a fix once."""
    seen = {after}
    for mutant in _all(before, after):
        if mutant.text not in seen and _balanced(mutant.text):
            seen.add(mutant.text)
            yield mutant


def _all(before: str, after: str) -> Iterator[Mutant]:
    old, new = _tokens(before), _tokens(after)
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    edits = [codes for codes in matcher.get_opcodes() if codes[0] != "equal"]
    for _, first, end, start, stop in edits:
        line = 1 + "".join(new[:start]).count("\n")
        yield Mutant(
            f"line {line}: {''.join(new[start:stop])!r} forgotten",
            "".join([*new[:start], *old[first:end], *new[stop:]]),
        )
        for at in range(max(0, start - 2), min(len(new), stop + 2)):
            for token in _instead(new, at):
                changed = "".join([*new[:at], token, *new[at + 1 :]])
                yield Mutant(f"line {line}: {new[at]!r} becomes {token!r}", changed)
    yield from _whole_lines(before, after)


def _whole_lines(before: str, after: str) -> Iterator[Mutant]:
    """Yield mutants that forget all edits of a line, or swap two neighbouring subscripts of an edited one."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    for tag, first, end, start, stop in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal" or end - first != stop - start:
            continue
        for k in range(stop - start):
            yield Mutant(
                f"line {start + k + 1} forgotten", "".join([*new[: start + k], old[first + k], *new[start + k + 1 :]])
            )
            swapped = re.sub(r"\[([^\[\]]+)\]\[([^\[\]]+)\]", r"[\2][\1]", new[start + k], count=1)
            text = "".join([*new[: start + k], swapped, *new[start + k + 1 :]])
            yield Mutant(f"line {start + k + 1}: subscripts swapped", text)


def _balanced(text: str) -> bool:
    return all(text.count(opening) == text.count(closing) for opening, closing in ("()", "[]", "{}"))


def _tokens(text: str) -> list[str]:
    return _TOKEN.findall(text)


def _instead(tokens: Sequence[str], at: int) -> Iterator[str]:
    """Yield what a token may be mistaken for."""
    token = tokens[at]
    if token.isdigit():
        number = int(token)
        yield from (str(other) for other in (number + 1, number - 1, 2 * number, number // 2) if other >= 0)
    elif token in _OTHER:
        yield from _OTHER[token]
    elif _WORD.fullmatch(token) and token not in _KEYWORDS and tokens[at + 1 : at + 2] != ["."]:
        near = [word for word in tokens[max(0, at - 12) : at + 12] if _WORD.fullmatch(word) and word not in _KEYWORDS]
        after_dot = at > 0 and tokens[at - 1] == "."
        yield from (("y", "x") if after_dot else [word for word in dict.fromkeys(near) if word != token][:2])


class Fate(Enum):
    """What the proof says of a mutant."""

    REFUSED = "it is not proved, or does not compile"
    SAME = "it is proved, and does the same for random inputs"
    WRONG = "it is proved, and differs"


def fate(old: Executable, target: Target, text: str, folder: Path, settings: EmulationSettings) -> Fate:
    """Return what becomes of a version of a fix."""
    if not certified.judged((target,), text.encode(), CatalogOptions(), settings).claim.held:
        return Fate.REFUSED
    new = executable(with_text(target, text, folder), settings)
    return Fate.SAME if trial.trace_claim(old, new, TIMEOUT_S).held else Fate.WRONG


def some(name: str, count: int) -> list[Mutant]:
    """Return so many mutants of a fix, evenly spread over all of them."""
    target = specs()[name]
    every = list(mutants(target.source.read_text(encoding="utf-8"), FIXES[name].text(target)))
    step = max(1.0, len(every) / count)
    return [every[int(k * step)] for k in range(min(count, len(every)))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="fixes of tests/data/fix/fixes.toml")
    parser.add_argument("--of-each", type=int, default=24, help="mutants of each fix")
    given = parser.parse_args()
    settings, wrong = EmulationSettings(), 0
    for name in given.names or (name for name, fix in FIXES.items() if not fix.shared):
        target, fates = specs()[name], Counter[Fate]()
        old = executable(target, settings)
        with tempfile.TemporaryDirectory() as scratch:
            for number, mutant in enumerate(some(name, given.of_each)):
                became = fate(old, target, mutant.text, Path(scratch, str(number)), settings)
                fates[became] += 1
                if became is Fate.WRONG:
                    print(f"{name}, {mutant.what}: {became.value}")
        print(f"{name}: " + ", ".join(f"{count} {each.name.lower()}" for each, count in fates.items()), flush=True)
        wrong += fates[Fate.WRONG]
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
