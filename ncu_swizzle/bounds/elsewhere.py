"""Work in a Python process of its own that is limited in time and memory: for what cannot be interrupted here."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from ncu_swizzle.bounds.deadline import OutOfTime

MEMORY_BYTES = 1 << 30
LONGEST_ANSWER = 64 << 20

# Limits itself: it ends even if this process is killed meanwhile.
_PROLOGUE = """
import json, math, resource, sys
question, seconds, memory, sys.path[:] = json.load(sys.stdin)
resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(seconds), math.ceil(seconds) + 1))
resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
"""
_EPILOGUE = """
json.dump(answer, sys.stdout)
"""


def answered(program: str, question: Any, seconds: float, memory_bytes: int = MEMORY_BYTES) -> Any:
    """Return the `answer` that a program computes from the `question`; both are JSON.

    Raises OutOfTime if it needs more processor time or memory, fails, or does not end in a few times as many seconds.
    """
    given = json.dumps([question, seconds, memory_bytes, sys.path])
    command = [sys.executable, "-I", "-S", "-c", f"{_PROLOGUE}{program}{_EPILOGUE}"]
    try:
        ended = subprocess.run(
            command, input=given, capture_output=True, text=True, timeout=4 * seconds + 2, check=True
        )
        return json.loads(ended.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        raise OutOfTime from None
