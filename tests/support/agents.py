"""A client of the MCP server, connected to the process that an agent starts."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.support.places import ROOT

NEEDS_MCP = pytest.mark.skipif(not find_spec("mcp"), reason="mcp is not installed: pip install 'ncu-swizzle[servers]'")


def with_client(folder: Path, use: Callable[[Any], Awaitable[None]], *options: str, limit_s: float = 110) -> None:
    """Start the server in a folder, as an agent does, and use a client that is connected to it."""
    from mcp import Client
    from mcp.client.stdio import StdioServerParameters

    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = ["-m", "ncu_swizzle", "serve", "mcp", *options]

    async def connected() -> None:
        server = StdioServerParameters(command=sys.executable, args=command, env=environment, cwd=str(folder))
        async with Client(server) as client:
            await use(client)

    asyncio.run(asyncio.wait_for(connected(), limit_s))


def text(result: Any) -> str:
    return str(result.content[0].text)
