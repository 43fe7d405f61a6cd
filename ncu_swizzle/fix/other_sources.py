"""The other files of a project that include what a patch changes: it must do for their kernels, too."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from ncu_swizzle.catalog import includes
from ncu_swizzle.catalog.target import Target
from ncu_swizzle.cubin.demangled import demangle
from ncu_swizzle.engines.context import Context
from ncu_swizzle.engines.emulation import EmulationSettings
from ncu_swizzle.errors import EnvironmentLacking, NcuSwizzleError, ProgramFailed, UsageError
from ncu_swizzle.files import brief, read_bytes
from ncu_swizzle.fix import neighbours
from ncu_swizzle.fix.includers import Checkout, Includers
from ncu_swizzle.fix.neighbours import Neighbour, neighbour
from ncu_swizzle.gate import lint_inputs
from ncu_swizzle.gate.lint_inputs import LintOptions
from ncu_swizzle.patch.applied import Applied
from ncu_swizzle.patch.headers import with_headers
from ncu_swizzle.patch.rebuilt import with_files
from ncu_swizzle.proof.claims import About, Claim, State
from ncu_swizzle.source import classes, cuda
from ncu_swizzle.source.cuda import CudaFile
from ncu_swizzle.source.scopes import NAMES

if TYPE_CHECKING:
    from tree_sitter import Node

# What has a changed line in it when an array, or how it is indexed, changes.
SEEN_BY_HOST = (
    "function_definition", "preproc_def", "preproc_function_def", "alias_declaration", "type_definition", "declaration",
    *classes.CLASSES,
)  # fmt: skip


@dataclass(eq=False)
class OtherSources:
    """The sources of a project besides one, with their kernels as far as their launches are described."""

    source: Path
    project: Path
    options: LintOptions
    settings: EmulationSettings
    _described: dict[Path, list[Neighbour]] = field(default_factory=dict, init=False)
    _including: dict[frozenset[Path], Includers] = field(default_factory=dict, init=False)

    def stopped(
        self, files: Mapping[Path, bytes], applied: Sequence[Applied], context: Context
    ) -> tuple[Claim | None, list[Neighbour]]:
        """Return what new texts of files break, or may break, elsewhere; and the kernels that they are proved for."""
        names, proved = ", ".join(file.name for file in files), list[Neighbour]()
        including = self._found(frozenset(files))
        if including.unknown:
            reason = f"the patch changes {names}, and what else includes it is not known: {including.unknown}"
            return _unknown(reason), proved
        if (seen := self._on_host(files, including.reached)) is not None:
            return seen, proved
        for source in including.files:
            path = os.path.relpath(source, self.source.parent)
            for claim, changed in self._judged(source, files, applied, context):
                if claim is not None:
                    reason = f"the patch changes {names}, which {path} includes, too: {claim.reason}"
                    return replace(claim, reason=reason), []
                proved += changed
        return None, proved

    def _on_host(self, files: Mapping[Path, bytes], reached: Collection[Path]) -> Claim | None:
        """Return what host code of another file may notice: only the code of kernels is compared."""
        for header, text in files.items():
            if not header.is_file():
                continue
            names = host_names(read_bytes(header), text)
            for file in reached if names else ():
                if (met := mentioned_by_host(read_bytes(file), names)) is not None:
                    path = os.path.relpath(file, self.source.parent)
                    what = f"the patch changes {met[0]} of {header.name}, which the host code of {path} mentions"
                    return _unknown(f"{what} (line {met[1]})")
        return None

    def _found(self, files: frozenset[Path]) -> Includers:
        if files not in self._including:
            self._including[files] = self._checkout.including(files, self.source)
        return self._including[files]

    @cached_property
    def _checkout(self) -> Checkout:
        return Checkout(includes.plain(self.project))

    def _judged(
        self, source: Path, headers: Mapping[Path, bytes], applied: Sequence[Applied], context: Context
    ) -> Iterator[tuple[Claim | None, list[Neighbour]]]:
        """Yield for each kernel of a source what stops the patch, or that it is proved for it if it changes it."""
        try:
            known = self._kernels(source)
            if not known:
                yield _unknown("no launch of its kernels is described"), []
            for each in known:
                yield self._of(each, {other.symbol for other in known}, headers, applied, context)
        except EnvironmentLacking:
            raise
        except (NcuSwizzleError, ValueError, StopIteration) as error:
            yield _unknown(brief(error)), []

    def _kernels(self, source: Path) -> list[Neighbour]:
        if source not in self._described:
            variants = lint_inputs.described(source, self.options)
            targets = [Target(family, kernel, family.problem()) for family, kernel in variants]
            made = [with_headers(target, self.project) for target in targets]
            self._described[source] = [neighbour(target, self.settings) for target in made]
        return self._described[source]

    def _of(
        self,
        each: Neighbour,
        described: Collection[str],
        headers: Mapping[Path, bytes],
        applied: Sequence[Applied],
        context: Context,
    ) -> tuple[Claim | None, list[Neighbour]]:
        each.tried = ()
        included = each.target.family.included()
        if not all(str(header) in included for header in headers):
            headers = {header: text for header, text in headers.items() if str(header) in included}
            if not headers:
                return _unknown("where it finds it is not known"), []
        toolchain, cached = self.settings.toolchain, self.settings.cached
        before = neighbours.code_of(each.target, toolchain, cached)
        with with_files(each.target, headers) as after:
            try:
                code = neighbours.code_of(after, toolchain, cached)
            except (UsageError, ProgramFailed):
                return Claim(About.REBUILT, State.FAILED, "that one does not compile any more"), []
            changed = list(neighbours.changed(before, code, ""))
            foreign = next((symbol for symbol in changed if symbol not in described), None)
            if foreign is not None:
                return _unknown(f"no launch of its kernel {demangle(foreign)} is described"), []
            if each.symbol not in changed:
                return None, []
            proof = each.proved(after, applied, context, self.settings)
        if proof.held:
            return None, [each]
        return Claim(About.MEANING, proof.state, f"it is not proved for {each.target.name}"), []


def host_names(before: bytes, after: bytes) -> frozenset[str]:
    """Return the names by which host code may see that a file has changed.

    They are those of types, macros, variables and functions that the host may run with a changed line, and new ones.
    """
    names = [frozenset(_of_lines(text, other)) for text, other in ((before, after), (after, before))]
    return names[0] | names[1]


def _of_lines(text: bytes, other: bytes) -> Iterator[str]:
    file = cuda.parse(text, "")
    lines, others = text.splitlines(), other.splitlines()
    matcher = difflib.SequenceMatcher(None, lines, others, autojunk=False)
    fresh = {n for tag, start, end, *_ in matcher.get_opcodes() if tag != "equal" for n in range(start, end)}
    for node in file.nodes(*SEEN_BY_HOST):
        if fresh.isdisjoint(range(node.start_point[0], node.end_point[0] + 1)):
            continue
        if cuda.above(node, "function_definition") is not None or (
            node.type == "function_definition" and _on_device(file, node)
        ):
            continue
        if node.type in classes.CLASSES:
            yield from classes.names(file, node)
            continue
        written = [cuda.field(node, "name"), *node.children_by_field_name("declarator")]
        for each in (each for each in written if each is not None):
            named = next((n for n in cuda.walk(each) if n.type in NAMES[:3]), None)
            if named is not None:
                yield file.of(named)


def mentioned_by_host(text: bytes, names: Collection[str]) -> tuple[str, int] | None:
    """Return the first of some names that a file mentions outside of functions that only the device runs, and where."""
    file = cuda.parse(text, "")
    for node in (node for node in cuda.walk(file.root) if node.type in (*NAMES, "preproc_arg")):
        met = sorted(set(re.findall(r"\w+", file.of(node))) & set(names))
        if not met:
            continue
        function = cuda.above(node, "function_definition")
        if function is None or not _on_device(file, function):
            return met[0], file.line(node)
    return None


def _on_device(file: CudaFile, function: Node) -> bool:
    """Say whether only the device runs a function."""
    words = {file.of(child) for child in function.children if child.child_count == 0}
    words |= set(re.findall(r"\w+", file.of(function).partition("(")[0]))
    return bool(words & {"__device__", "__global__"}) and "__host__" not in words


def _unknown(reason: str) -> Claim:
    return Claim(About.MEANING, State.UNKNOWN, reason)
