"""Select launches in reports with many kernels, and pair them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ncu_swizzle.option import option

if TYPE_CHECKING:
    from ncu_swizzle.profiles.pairing import Choice, Forced


@dataclass(frozen=True)
class Pairs:
    """Launches to pair whatever their names."""

    pair: tuple[str, ...] = option((), "Pair these kernels: names, regex:EXPR or launch numbers.", "A=B", ("--pair",))

    def forced(self) -> Sequence[Forced]:
        """Return the pairs; raise UsageError."""
        from ncu_swizzle.profiles import pairing

        return [pairing.forced_pair(text) for text in self.pair]


@dataclass(frozen=True)
class Selection(Pairs):
    """The launches with these names and numbers."""

    kernel_name: str = option(
        "", "Of many kernels, only those with this name.", "NAME|regex:EXPR", ("--kernel-name", "-k")
    )
    launch: tuple[int, ...] = option((), "Of many launches, only this number; repeatable.", "N", minimum=0)

    def choice(self) -> Choice:
        """Return the selection for `pairing`; raise UsageError."""
        from ncu_swizzle.profiles import pairing

        return pairing.Choice(self.kernel_name, self.launch, tuple(self.forced()))
