"""Where what TMA writes to shared memory and what wgmma reads there do not fit; importing this loads no emulator."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Misfit:
    """One instruction that computes something else than a product of tiles: what is wrong, and what would fit."""

    offset: int  # of the instruction, in bytes from the function's start
    message: str


@dataclass(frozen=True)
class FollowedTiles:
    """What following tiles from tensor maps to wgmma found; `lacking` says why it ended early, if so."""

    misfits: tuple[Misfit, ...] = ()
    followed: int = 0  # wgmmas whose operands were all followed
    lacking: str = ""
