"""Fixes of the kernels of tests/data/fix, right and wrong: written by hand, mutated, and what becomes of them."""

import difflib
import itertools
import json
import re
import shutil
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Protocol

import numpy as np

from ncu_swizzle.engines.emulation import EmulationSettings, Executable, executable
from ncu_swizzle.fix import values
from ncu_swizzle.fix.claims import About, ClaimState
from ncu_swizzle.fix.excess import Moved
from ncu_swizzle.fix.proving import prove_version
from ncu_swizzle.kernels import build, catalog, project
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.project import specs as specs_project_kernels
from ncu_swizzle.smem.operations import Ints
from tests.support.places import DATA

CORPUS = DATA / "fix"


def specs() -> dict[str, Target]:
    """Return all kernels of the corpus by name, in the order of its file, those in CuTe last."""
    settings = project.project_in(CORPUS / project.OWN)
    families = [build.family_of(spec) for spec in specs_project_kernels(settings)]
    families += [family for family, _ in catalog.load(*settings.catalog)][:1]
    return {kernel.name: Target(family, kernel, family.problem()) for family in families for kernel in family.kernels}


def with_text(target: Target, text: str, folder: Path, shared: str = "") -> Target:
    """Return a kernel with another source, and maybe other dynamic shared memory, in a folder of its own."""
    if not target.family.standalone:
        folder = folder.joinpath(*target.family.folder.parts[-2:])
    folder.mkdir(parents=True, exist_ok=True)
    for header in target.family.folder.glob("*.cuh"):
        shutil.copy(header, folder)
    (folder / target.source.name).write_text(text, encoding="utf-8")
    launch = replace(target.family.launch, shared=shared or target.family.launch.shared)
    family = replace(target.family, folder=folder, launch=launch)
    return Target(family, target.kernel, target.problem)


class OnceEmulated(Protocol):
    """Emulates a kernel of the corpus by its name, once."""

    def __call__(self, name: str) -> Executable: ...


class Projects(Protocol):
    """Copies a project to fix by its name, and makes it the current folder."""

    def __call__(self, name: str) -> Path: ...


def described_too(project: Path, name: str, source: str) -> None:
    """Add a kernel to a project, launched as its first one is."""
    file = project / "ncu-swizzle.toml"
    described = file.read_text(encoding="utf-8")
    first = described.partition("\n\n")[0]
    launch = "\n".join(line for line in first.splitlines() if not line.startswith(("[", "source", "entry")))
    file.write_text(
        f'{described}\n[kernel.{name}]\nsource = "{source}"\nentry = "{name}"\n{launch}\n', encoding="utf-8"
    )


REFUSED: dict[str, tuple[str, str, int]] = {
    name: tuple(why) for name, why in json.loads((CORPUS / "refused.json").read_text(encoding="utf-8")).items()
}
"""What stands in the way of a proof: the beginning of the reason, and the line."""


BASE = 1024  # where a kernel's shared memory starts on sm_90
Place = Callable[[Ints], Ints]  # from the number of an element to that of its place


@dataclass(frozen=True)
class Fix:
    """What to write in place of what, and the arrays that move; `shared` is the new dynamic shared memory."""

    edits: tuple[tuple[str, str], ...]
    moved: tuple[Moved, ...]
    shared: str = ""

    def text(self, target: Target) -> str:
        """Return the new source."""
        text = target.source.read_text(encoding="utf-8")
        for old, new in self.edits:
            assert old in text, old
            text = text.replace(old, new)
        return text


def apply(name: str, folder: Path) -> tuple[Target, Target]:
    """Return a kernel of the corpus, and its fixed version in a folder of its own."""
    target, fix = specs()[name], FIXES[name]
    return target, with_text(target, fix.text(target), folder, fix.shared)


def array(name: str, elements: int, size: int, place: Place, start: int = 0, after: int = 0, at: int = -1) -> Moved:
    """Return an array of elements of some bytes that starts at a byte and has as many elements `after`."""
    first, new = BASE + start, BASE + (start if at < 0 else at)
    places = place(np.arange(elements)) * size
    return Moved(
        name=name,
        before=range(first, first + elements * size),
        after=range(new, new + (after or elements) * size),
        element_bytes=size,
        places=places,
    )


def padded(width: int, pad: int = 1) -> Place:
    """Return where elements go whose rows get longer."""
    return lambda i: i // width * (width + pad) + i % width


def swizzled(width: int, mask: int = -1) -> Place:
    """Return where elements go whose column is XORed with their row."""
    return lambda i: i // width * width + (i % width ^ i // width & (width - 1 if mask < 0 else mask))


def _moved(name: str, elements: int, bytes: int, row: int, pad: int = 0, mask: int = -1, start: int = 0) -> Moved:  # noqa: A002
    place = padded(row, pad) if pad else swizzled(row, mask)
    return array(name, elements, bytes, place, start, after=elements // row * (row + pad))


FIXES: dict[str, Fix] = {
    name: Fix(
        edits=tuple((old, new) for old, new in fix["edits"]),
        moved=tuple(_moved(**moved) for moved in fix["moved"]),
        shared=fix.get("shared", ""),
    )
    for name, fix in tomllib.loads((CORPUS / "fixes.toml").read_text(encoding="utf-8")).items()
}


FOLDER = CORPUS / "adversaries"
PLAIN, XOR = "#define AT(y, x) tile[y][x]\n", "#define AT(y, x) tile[y][(x) ^ (y)]\n"


@dataclass(frozen=True, kw_only=True)
class Adversary:
    """A kernel, and by what they do edits that are wrong: each replaces one text by another, once.

    A tile of 32 rows and columns that a macro AT accesses is mapped by an XOR in every version.
    """

    target: Target
    wrong: Mapping[str, tuple[str, str]]

    @property
    def moved(self) -> list[Moved]:
        return [array("tile", 1024, 4, swizzled(32))] if PLAIN in self._text else []

    def right(self, folder: Path) -> Target:
        """Return a version that means the same: mapped, and one line further down."""
        return with_text(self.target, "\n" + self._text.replace(PLAIN, XOR), folder / "right")

    def version(self, what: str, folder: Path) -> Target:
        """Return a wrong version in a folder of its own."""
        old, new = self.wrong[what]
        assert old in self._text, old
        text = self._text.replace(old, new, 1).replace(PLAIN, XOR)
        return with_text(self.target, text, folder / str(list(self.wrong).index(what)))

    @property
    def _text(self) -> str:
        return self.target.source.read_text(encoding="utf-8")


def adversaries() -> dict[str, Adversary]:
    """Return all by the names of their kernels."""
    families = [build.family_of(spec) for spec in specs_project_kernels(project.project_in(FOLDER / project.OWN))]
    targets = {family.kernels[0].name: Target(family, family.kernels[0], family.problem()) for family in families}
    edits = tomllib.loads((FOLDER / "edits.toml").read_text(encoding="utf-8"))
    return {
        name: Adversary(target=targets[name], wrong={what: (old, new) for what, (old, new) in wrong.items()})
        for name, wrong in edits.items()
    }


SEEDS = (2, 3, 4)  # of inputs that the proof does not use

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

    INVALID = "it does not compile"
    REFUSED = "it is refused"
    SAME = "it is proved, and does the same in every block for other inputs"
    WRONG = "it is proved, and differs"


def fate(old: Executable, target: Target, text: str, fix: Fix, folder: Path, settings: EmulationSettings) -> Fate:
    """Return what becomes of a version of a fix."""
    after = with_text(target, text, folder, fix.shared)
    proof = prove_version(old, after, fix.moved, settings)
    rebuilt = proof.claim(About.REBUILT)
    if rebuilt is not None and rebuilt.state is ClaimState.FAILED:
        return Fate.INVALID
    if not proof.held:
        return Fate.REFUSED
    return Fate.SAME if does_the_same(old, executable(after, settings)) else Fate.WRONG


def does_the_same(old: Executable, new: Executable) -> bool:
    """Return whether all blocks of the grid leave the same bytes, all of them known, for inputs of other seeds."""
    x, y, z = old.launch(None).grid
    blocks = list(itertools.product(range(x), range(y), range(z)))
    return all(values.compare(old, new, blocks, 600, seed).complete for seed in SEEDS)
