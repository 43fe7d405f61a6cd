"""The other sources of a project that include a header: a patch of it must do for their kernels, too."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ncu_swizzle.catalog import includes
from ncu_swizzle.catalog.family import SOURCE, Family
from ncu_swizzle.catalog.target import Target
from ncu_swizzle.cubin.demangled import demangle
from ncu_swizzle.engines.context import Context
from ncu_swizzle.engines.emulation import EmulationSettings
from ncu_swizzle.errors import EnvironmentLacking, NcuSwizzleError, ProgramFailed, UsageError
from ncu_swizzle.files import brief
from ncu_swizzle.fix import neighbours
from ncu_swizzle.fix.neighbours import Neighbour, neighbour
from ncu_swizzle.gate import lint_inputs
from ncu_swizzle.gate.lint_inputs import LintOptions
from ncu_swizzle.patch.applied import Applied
from ncu_swizzle.patch.headers import with_headers
from ncu_swizzle.patch.rebuilt import with_files
from ncu_swizzle.proof.claims import About, Claim, State

SUFFIXES = (SOURCE, ".cuh", ".h", ".hh", ".hpp", ".hxx", ".inl", ".inc")
MOST_FILES = 100_000  # that are looked at, of any kind


@dataclass(eq=False)
class OtherSources:
    """The sources of a project besides one, with their kernels as far as their launches are described."""

    source: Path
    family: Family
    project: Path
    options: LintOptions
    settings: EmulationSettings
    _described: dict[Path, list[Neighbour]] = field(default_factory=dict, init=False)
    _including: dict[frozenset[Path], list[Path] | None] = field(default_factory=dict, init=False)

    def stopped(
        self, headers: Mapping[Path, bytes], applied: Sequence[Applied], context: Context
    ) -> tuple[Claim | None, list[Neighbour]]:
        """Return what new texts of headers break, or may break, elsewhere; and the kernels that they are proved for."""
        names, proved = ", ".join(file.name for file in headers), list[Neighbour]()
        if not headers:
            return None, proved
        sources = self._sources(frozenset(headers))
        if sources is None:
            reason = f"the patch changes {names}, and {self.project} has too many files to tell what else includes it"
            return _unknown(reason), proved
        for source in sources:
            path = os.path.relpath(source, self.source.parent)
            for claim, changed in self._judged(source, headers, applied, context):
                if claim is not None:
                    reason = f"the patch changes {names}, which {path} includes, too: {claim.reason}"
                    return replace(claim, reason=reason), []
                proved += changed
        return None, proved

    def _sources(self, headers: frozenset[Path]) -> list[Path] | None:
        if headers not in self._including:
            self._including[headers] = _including(headers, self.source, self.project, self.family)
        return self._including[headers]

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


def _unknown(reason: str) -> Claim:
    return Claim(About.MEANING, State.UNKNOWN, reason)


def _including(headers: Collection[Path], source: Path, project: Path, family: Family) -> list[Path] | None:
    """Return the other sources below a folder that lead to some headers; None if there are too many files.

    Where another source searches is not known: what is not found leads to every file of that name.
    """
    files = _files(project)
    if files is None:
        return None
    named: dict[str, list[Path]] = {}
    for file in files:
        named.setdefault(file.name, []).append(file)
    folders, including = family.search_folders(), dict[Path, list[Path]]()
    for file in files:
        for name, beside in includes.named(file.read_text(encoding="utf-8", errors="replace")):
            found = includes.located(name, beside, file, folders)
            for header in [found] if found is not None else named.get(Path(name).name, []):
                including.setdefault(header, []).append(file)
    reached, waiting = set(headers), list(headers)
    while waiting:
        fresh = set(including.get(waiting.pop(), [])) - reached
        reached |= fresh
        waiting += fresh
    return sorted(file for file in reached if file.suffix == SOURCE and file != source)


def _files(project: Path) -> list[Path] | None:
    """Return the files below a folder that may be CUDA C++, without hidden folders; None if there are too many."""
    found: list[Path] = []
    number = 0
    for folder, folders, files in os.walk(project):
        folders[:] = [name for name in folders if not name.startswith(".")]
        number += len(files)
        if number > MOST_FILES:
            return None
        found += [path for file in files if (path := Path(folder, file)).suffix in SUFFIXES and path.is_file()]
    return found
