"""The other files of a project that include what a patch changes: it must do for their kernels, too."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from ncu_swizzle.catalog import includes
from ncu_swizzle.catalog.target import Target
from ncu_swizzle.cubin.demangled import demangle
from ncu_swizzle.engines.context import Context
from ncu_swizzle.engines.emulation import EmulationSettings
from ncu_swizzle.errors import EnvironmentLacking, NcuSwizzleError, ProgramFailed, UsageError
from ncu_swizzle.files import brief
from ncu_swizzle.fix import neighbours
from ncu_swizzle.fix.includers import Checkout, Includers
from ncu_swizzle.fix.neighbours import Neighbour, neighbour
from ncu_swizzle.gate import lint_inputs
from ncu_swizzle.gate.lint_inputs import LintOptions
from ncu_swizzle.patch.applied import Applied
from ncu_swizzle.patch.headers import with_headers
from ncu_swizzle.patch.rebuilt import with_files
from ncu_swizzle.proof.claims import About, Claim, State


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
        for source in including.files:
            path = os.path.relpath(source, self.source.parent)
            for claim, changed in self._judged(source, files, applied, context):
                if claim is not None:
                    reason = f"the patch changes {names}, which {path} includes, too: {claim.reason}"
                    return replace(claim, reason=reason), []
                proved += changed
        return None, proved

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


def _unknown(reason: str) -> Claim:
    return Claim(About.MEANING, State.UNKNOWN, reason)
