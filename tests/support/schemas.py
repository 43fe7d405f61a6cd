"""Public schemas, and the program that holds files against them."""

from __future__ import annotations

import subprocess
import sys

from tests.support.places import DATA

SARIF_SCHEMA = DATA / "schemas" / "sarif-2.1.0-rtm.5.json"


def validate(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "check_jsonschema", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)
