"""Where numbers come from: the name of an engine, which profiles, baselines and sweeps save, and what it implies."""

from __future__ import annotations

from dataclasses import dataclass

NCU, RECORDED, EMULATED = "ncu", "recorded", "emulated"


@dataclass(frozen=True)
class Origin:
    """What the engine that made numbers says of them; `provenance` is JSON's field (docs/reference/schemas.md)."""

    provenance: str
    measured: bool = False  # by ncu, for this very report
    recorded: bool = False  # measured earlier, and shipped
    computed: bool = False  # by the emulator


ORIGINS = {
    NCU: Origin("measured", measured=True),
    RECORDED: Origin("recorded", recorded=True),
    EMULATED: Origin("computed", computed=True),
}
COMPUTED = ORIGINS[EMULATED].provenance


def origin_of(engine: str) -> Origin:
    """Return the origin of an engine's numbers; that of another name, which a saved file may have, is the name."""
    return ORIGINS.get(engine) or Origin(engine)
