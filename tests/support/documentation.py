"""The examples in the documentation of the Python API."""

import re

from tests.support.places import ROOT

DOCS = ROOT / "docs" / "python.md"


def snippets() -> list[str]:
    return re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
