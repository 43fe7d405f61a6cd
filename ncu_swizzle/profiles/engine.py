"""The source of the numbers."""

from __future__ import annotations

from dataclasses import dataclass

NCU, RECORDED, EMULATED = "ncu", "recorded", "emulated"  # measured now, measured earlier and shipped, computed


@dataclass(frozen=True)
class Engine:
    """ncu, emulated or recorded; `reason` says why `auto` did not choose ncu.

    With `beside`, metrics that the emulator cannot compute come from a recording, and so do kernels that it cannot run.
    """

    name: str
    reason: str = ""
    beside: bool = False
