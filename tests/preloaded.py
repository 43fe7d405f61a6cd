"""What `process` has loaded before a command starts: everything that takes long, and nothing that asks the machine."""

from __future__ import annotations

import typer.testing  # noqa: F401

from ncu_swizzle import api
from ncu_swizzle.pack import findings
from ncu_swizzle import cli
from ncu_swizzle.render import json_
from ncu_swizzle.gate import linting
from ncu_swizzle.render import markdown
from ncu_swizzle.render import page
from ncu_swizzle.profiles import pairing
from ncu_swizzle.ncurep import reader
from ncu_swizzle.render import csv_
from ncu_swizzle.render import terminal
from ncu_swizzle.commands import output  # noqa: F401
from ncu_swizzle.engines import emulation  # noqa: F401
from ncu_swizzle.gate import baseline
from ncu_swizzle.gate import checking
from ncu_swizzle.gate import config  # noqa: F401
from ncu_swizzle.sweep import running  # noqa: F401

page.prepare({})
