"""What `process` has loaded before a command starts: everything that takes long, and nothing that asks the machine."""

from __future__ import annotations

import typer.testing  # noqa: F401

from ncu_swizzle import (  # noqa: F401
    api,
    applying,
    cli,
    export,
    linting,
    markdown,
    page,
    pairing,
    repfile,
    table,
    terminal,
)
from ncu_swizzle.commands import output  # noqa: F401
from ncu_swizzle.emulate import engine  # noqa: F401
from ncu_swizzle.gate import baseline, checking, config  # noqa: F401
from ncu_swizzle.sweep import running  # noqa: F401

page.prepare({})
