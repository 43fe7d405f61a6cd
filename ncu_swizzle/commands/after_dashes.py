"""A command that takes a program after ``--``, in addition to its own arguments."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand

KEY = "ncu_swizzle.after_dashes"


class WithProgram(TyperCommand):
    """A command that separates what follows the first ``--`` from its own arguments."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse what comes before ``--``; `after_dashes` returns the rest."""
        dashes = args.index("--") if "--" in args else len(args)
        ctx.meta[KEY] = tuple(args[dashes + 1 :])
        return super().parse_args(ctx, args[:dashes])


def after_dashes(context: typer.Context) -> tuple[str, ...]:
    """Return what followed ``--``."""
    words: tuple[str, ...] = context.meta.get(KEY, ())
    return words
