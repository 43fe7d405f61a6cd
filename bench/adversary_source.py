"""The patches that the source alone lets through, without nvcc, emulation and proof: thousands of programs in minutes.

What the emulator would have seen of a tile is made up: it is written along rows and read along columns. What nvcc would
have said of sizes and constants, g++ says, of a batch of programs at once. Whatever patch is written then is one that
only the proof, which knows the described launch alone, could still refuse.
"""

from __future__ import annotations

import math
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

import numpy as np
from adversary_cpu import ASKING, COMPILER, in_namespace, shim
from adversary_kernels import BYTES, SIDE, Program

from ncu_swizzle.cubin.shared_arrays import SharedArray
from ncu_swizzle.emulate.requests import AccessRequests
from ncu_swizzle.engines.emulation import Emulated, EmulationSettings
from ncu_swizzle.fix import candidates, cuda, launched
from ncu_swizzle.fix.candidates import RootSeen, Shape, TileSeen
from ncu_swizzle.fix.cuda import Unfit
from ncu_swizzle.fix.fixing import written
from ncu_swizzle.fix.scopes import Scopes, shared_declarations, sizes_of
from ncu_swizzle.fix.subject import FixSubject, webs_of
from ncu_swizzle.fix.webs import SourceTile, carved
from ncu_swizzle.kernels import build, project
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.project import specs
from ncu_swizzle.smem.judge import Constraints

NARROW = {2: "u16", 4: "b32", 8: "b64"}
EACH = 1  # mappings of a kind and a tile that are compared, in all ways that they are written
TRIES = 6


@dataclass(frozen=True)
class Candidates:
    """What the source lets through: new texts; or else what the writers said."""

    texts: tuple[str, ...] = ()
    why: str = ""
    failed: bool = False  # fix itself fails
    fault: bool = False  # the generated program does not compile: ours


class _Waiting(Exception):
    """The compiler is to be asked first."""


@dataclass
class _Asked:
    """A program's questions to the compiler, and its answers once it was asked."""

    questions: launched.Questions | None = None
    left_out: frozenset[int] = frozenset()
    answers: Mapping[int, int] | None = None
    fault: str = ""  # what g++ says of the program itself


@dataclass
class Batch:
    """Programs that are compiled together."""

    programs: Sequence[Program]
    folder: Path
    asked: dict[str, _Asked] = field(default_factory=dict)

    def candidates(self) -> dict[str, Candidates]:
        """Return what the source lets through of each program."""
        targets = {program.name: target(program, self.folder) for program in self.programs}
        for program in self.programs:
            self._candidates(program, targets[program.name])  # asks
        self._answer()
        return {program.name: self._candidates(program, targets[program.name]) for program in self.programs}

    def _candidates(self, program: Program, made: Target) -> Candidates:
        asked = self.asked.setdefault(program.name, _Asked())

        def compiled(_: Target, questions: launched.Questions, __: EmulationSettings) -> Mapping[int, int]:
            asked.questions = questions
            if asked.fault:
                raise _Waiting
            if asked.answers is None:
                raise _Waiting
            return asked.answers

        try:
            with mock.patch.object(launched, "_compiled", compiled):
                return _texts(subject_of(program, made))
        except _Waiting:
            return Candidates(why=asked.fault, fault=bool(asked.fault))

    def _answer(self) -> None:
        """Ask g++ what the probes of all programs come to; what it cannot name is left out of the next try."""
        for _ in range(TRIES):
            texts = {name: _probed(asked) for name, asked in self.asked.items() if asked.questions and not asked.fault}
            source, output = self.folder / "probes.cpp", self.folder / "probes.s"
            source.write_text("".join(in_namespace(name, text) for name, text in texts.items()), encoding="utf-8")
            command = [*COMPILER, ASKING, "-S", "-fmax-errors=0", "-include", shim(ASKING), source, "-o", output]
            made = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
            if made.returncode == 0:
                break
            errors = re.findall(r"^(\w+):(\d+):\d+: error: (.*)", made.stderr, re.MULTILINE)
            for name in dict.fromkeys(name for name, _, _ in errors):
                lines = texts[name].split("\n")
                met = [
                    (re.search(rf"{launched.MARK}(\d+)", lines[int(at) - 1]), said)
                    for own, at, said in errors
                    if own == name
                ]
                probed = {int(number[1]) for number, _ in met if number}
                # What g++ says of other lines may follow from a probe: the program is at fault only without one.
                self.asked[name].left_out |= probed
                self.asked[name].fault = "" if probed else met[0][1]
        else:
            raise RuntimeError(made.stderr[:2000])
        found: dict[str, dict[int, set[str]]] = {}
        for name, number, value in re.findall(rf"# (\w+) {launched.MARK}(\d+) (\S+)", output.read_text()):
            found.setdefault(name, {}).setdefault(int(number), set()).add(value)
        for name, asked in self.asked.items():
            only = {number: min(said) for number, said in found.get(name, {}).items() if len(said) == 1}
            asked.answers = {number: int(said[1:]) for number, said in only.items() if said.startswith("$")}


def _probed(asked: _Asked) -> str:
    """Return a program with probes that leave their values in comments of the assembly."""
    questions = asked.questions
    assert questions is not None
    text = questions.text(asked.left_out)
    name = next(name for name in re.findall(r"//NAME (\w+)", text.decode()))
    return re.sub(
        rf'asm volatile\("{{ \.reg \.b32 ({launched.MARK}\d+);.*?" :: "r"', rf'asm volatile("# {name} \1 %0" :: "ri"',
        text.decode(),
    )  # fmt: skip


def target(program: Program, folder: Path) -> Target:
    """Return a program's kernel, written to a folder of its own."""
    own = folder / program.name
    own.mkdir(parents=True, exist_ok=True)
    (own / "k.cu").write_text(program.text, encoding="utf-8")
    (own / project.OWN).write_text(program.settings, encoding="utf-8")
    (spec,) = specs(project.project_in(own / project.OWN))
    family = build.family_of(spec)
    return Target(family, family.kernels[0], family.problem())


def subject_of(program: Program, made: Target) -> FixSubject:
    """Return what `fix.subject.subject_of` does, with made-up requests."""
    file = cuda.parse(f"{program.text}//NAME {program.name}\n".encode(), "k.cu")
    scopes = Scopes(file)
    every = tuple(shared_declarations(scopes))
    webs = webs_of(scopes, every, every)
    known = launched.compiler_knowledge(made, scopes, every, webs, EmulationSettings())
    placed, end = {}, 1024
    for declaration in every:
        extents = [known.constants.value(extent) or 0 for extent in sizes_of(declaration.declared, file)]
        whole = math.prod(extents) * known.element_bytes.get(declaration.declared.id, 0)
        size = program.dynamic if declaration.dynamic else whole
        name = declaration.name
        placed[declaration.declared.id] = SharedArray(
            name=name, symbol=name, start=end, size=size, align=16, dynamic=declaration.dynamic
        )
        end += -(-size // 16) * 16
    tiles = [tile for web in webs for tile in carved(web, known.offsets, known.members)]
    seen = [found for tile in tiles if (found := _seen(program, tile, placed)) is not None]
    emulated = cast(Emulated, SimpleNamespace(binary=SimpleNamespace(cubin=SimpleNamespace(sm=90))))
    declared = {declaration.declared.id: declaration for declaration in every}
    facts: dict[str, Any] = {
        "target": made, "emulated": emulated, "file": file, "scopes": scopes, "declarations": declared,
        "placed": placed, "tiles": tuple(seen), "known": known, "unplaced": (),
    }  # fmt: skip
    return FixSubject(**{each.name: facts[each.name] for each in fields(FixSubject)})


def _seen(program: Program, tile: SourceTile, placed: Mapping[int, SharedArray]) -> TileSeen | None:
    """Return a tile as if each root of it were written along rows, and read along columns."""
    size, roots, requests = BYTES[program.element], [], []
    starts = sorted(placed[r.array.declared.id].start + r.offset for r in tile.roots)
    for root in tile.roots:
        array = placed[root.array.declared.id]
        start, end = array.start + root.offset, array.start + array.size
        later = min((at for at in starts if start < at < end), default=end)
        roots.append(RootSeen(root=root, array=array, start=start, end=start + root.size if root.size else later))
    for root in roots:
        if root.size < SIDE * SIDE * size:
            continue
        rows, lanes = np.meshgrid(np.arange(SIDE), np.arange(SIDE), indexing="ij")
        for op, offsets in (("st", rows * SIDE + lanes), ("ld", lanes * SIDE + rows)):
            addresses = (root.start + offsets * size).astype(np.int64)
            active, times = np.ones(addresses.shape, bool), np.ones(SIDE, np.int64)
            requests.append(
                (
                    root,
                    AccessRequests(op=f"{op}.shared.{NARROW[size]}", addresses=addresses, active=active, times=times),
                )
            )
    return (
        TileSeen(tile=tile, roots=tuple(roots), requests=tuple(requests), excess=SIDE, launch_excess=SIDE)
        if requests
        else None
    )


def _texts(subject: FixSubject) -> Candidates:
    """Return the patches that are written for the tiles of a program, some of each kind of mapping."""
    texts: dict[str, None] = {}
    why = "no tile is followed"
    for seen in subject.tiles:
        kinds: dict[Any, int] = {}
        best = _ranked(seen, subject.shapes(seen), subject.spelled_bytes(seen))
        why = why if best else "no mapping"
        for made in best:
            if kinds.get(type(made.transform), 0) >= EACH:
                continue
            try:
                every = list(written(subject, seen, made))
            except Exception as error:
                return Candidates(tuple(texts), repr(error), failed=True)
            for text in every:
                if isinstance(text, Unfit):
                    why = str(text)
                    continue
                kinds[type(made.transform)] = kinds.get(type(made.transform), 0) + 1
                texts[text.decode().split("//NAME")[0]] = None
    return Candidates(tuple(texts), why)


_MAPPINGS: dict[object, list[candidates.Ranked]] = {}


def _ranked(seen: TileSeen, shapes: list[Shape], spelled: int) -> list[candidates.Ranked]:
    """Return the mappings of a tile, the best first: the same for all whose made-up requests are the same."""
    requests = tuple((made.op, made.addresses.tobytes()) for _, made in seen.requests)
    roots = tuple((root.start, root.end) for root in seen.roots)
    key = (requests, roots, tuple(shapes), spelled)
    if key not in _MAPPINGS:
        _MAPPINGS[key] = candidates.ranked(seen, shapes, Constraints(arch="sm_90"), spelled)[0]
    return _MAPPINGS[key]
