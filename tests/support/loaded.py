"""Everything that takes long to load, and nothing that asks the machine."""

import typer.testing  # noqa: F401

from ncu_swizzle.commands import output  # noqa: F401
from ncu_swizzle.engines import emulation  # noqa: F401
from ncu_swizzle.sweep import running  # noqa: F401
