"""Work in a process of its own that is limited in time, memory and output: for what cannot be interrupted here."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
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


def printed(
    command: Sequence[str], given: bytes, timeout_s: float, most: int, environment: Mapping[str, str] | None = None
) -> bytes | None:
    """Return what a program that reads `given` prints to stdout; None if it fails, hangs or prints more than `most`.

    No more than that is read, and a program that prints more is killed.
    """
    with tempfile.TemporaryFile() as question:  # a pipe could fill up while the answer is read
        question.write(given)
        question.seek(0)
        try:
            process = subprocess.Popen(
                command, stdin=question, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
            )
        except (OSError, ValueError):
            return None
        alarm = threading.Timer(timeout_s, process.kill)
        with process:
            try:
                alarm.start()
                assert process.stdout is not None
                answer = process.stdout.read(most + 1)
                if len(answer) > most:
                    return None
                process.wait()
            finally:  # an interrupt ends it, too
                alarm.cancel()
                process.kill()
    return answer if process.returncode == 0 else None


def answered(program: str, question: Any, seconds: float, memory_bytes: int = MEMORY_BYTES) -> Any:
    """Return the `answer` that a program computes from the `question`; both are JSON.

    Raises OutOfTime if it needs more processor time or memory, fails, does not end in a few times as many seconds, or
    answers more than LONGEST_ANSWER.
    """
    given = json.dumps([question, seconds, memory_bytes, sys.path]).encode()
    command = [sys.executable, "-I", "-S", "-c", f"{_PROLOGUE}{program}{_EPILOGUE}"]
    answer = printed(command, given, 4 * seconds + 2, LONGEST_ANSWER)
    try:
        if answer is not None:
            return json.loads(answer)
    except (ValueError, RecursionError):
        pass
    raise OutOfTime
