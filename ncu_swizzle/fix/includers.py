"""The other files of a project that include what a patch changes, for which it is not proved."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ncu_swizzle.certify.includers import UNITS, CheckoutFiles, kind
from ncu_swizzle.fix.claims import About, Claim, ClaimState
from ncu_swizzle.kernels import limits


@dataclass(eq=False, kw_only=True)
class OtherSources:
    """What else a project compiles besides one source."""

    source: Path
    project: Path

    def stopped(self, changed: Collection[Path], files: Collection[Path]) -> Claim | None:
        """Return what is in the way of a patch of some of the source's files: it is proved for that one alone."""
        names, checkout = ", ".join(file.name for file in changed), self._checkout
        own = {self.source, *(file for file in files if kind(file) not in UNITS)}
        others = checkout.including(changed, own)
        if checkout.unclear:
            return _unknown(f"the patch changes {names}, and what else includes it is not known: {checkout.unclear}")
        if others:
            path = os.path.relpath(others[0], self.source.parent)
            return _unknown(f"the patch changes {names}, which {path} includes, too")
        return None

    @cached_property
    def _checkout(self) -> CheckoutFiles:
        return CheckoutFiles(limits.plain(self.project))


def _unknown(reason: str) -> Claim:
    return Claim(about=About.MEANING, state=ClaimState.UNKNOWN, reason=reason)
