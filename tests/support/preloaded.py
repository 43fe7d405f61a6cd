"""What `process` has done before a command starts: all is loaded, and a first command has run."""

import gc

from typer.testing import CliRunner

from ncu_swizzle import cli
from ncu_swizzle.render import page
from tests.support import kept, loaded  # noqa: F401

page.prepare({})
kept.install()  # what the tests' kernels are compiled to
CliRunner().invoke(
    cli.command_line(), ["profile", "--nonsense"]
)  # typer keeps what it finds out with the first command
gc.collect()
gc.freeze()  # a fork then leaves these objects' pages shared
