"""``ncu-swizzle doctor``: check whether this machine can measure, and say what to type if it cannot."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ncu_swizzle.commands.groups import Only, grouped
from ncu_swizzle.engines.context import Request


@grouped
def doctor(
    request: Annotated[Request, Only("ncu")],
    trial: Annotated[bool, typer.Option(help="Profile a small kernel if all checks pass.")] = True,
    json: Annotated[bool, typer.Option("--json", help="Print the answers as JSON.")] = False,
) -> None:
    """Check whether this machine can measure; exit code 3 if not.

    Checks the driver, the GPU, ncu, permissions, compilers, packages and the folders that ncu writes to, and tries a
    one-pass profile. Each answer says what to type.
    """
    from ncu_swizzle.commands.console import Output
    from ncu_swizzle.doctor import examination, page
    from ncu_swizzle.ncu.system import System

    diagnosis = examination.examine(System(), request.ncu, examination.profile_once if trial else None)
    if json:
        sys.stdout.write(diagnosis.to_json())
    else:
        page.show(diagnosis, Output())
    if not diagnosis.able:
        raise typer.Exit(3)
