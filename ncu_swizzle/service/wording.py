"""Hints in the words of clients: they make calls with a launch, and type no command."""

from __future__ import annotations

import re
import shlex
from typing import Any

from ncu_swizzle.build import lacking
from ncu_swizzle.errors import LaunchLacking, NcuSwizzleError, UnknownKernel
from ncu_swizzle.service.launch import LISTS
from ncu_swizzle.texts import in_json

OPTION = r"--(?:kernel|grid|block|shared|arg|problem|define|include|std|option|arch|sample)"
OPTIONS = re.compile(rf"{OPTION} (?:'[^']*'|\S+)(?: {OPTION} (?:'[^']*'|\S+))*")
COMMAND = re.compile(r"ncu-swizzle (profile|suggest|explain) ([^\s,;-][^\s,;]*)")
FIELDS = {"arg": "args"}  # options that a launch calls otherwise


def hint(error: NcuSwizzleError) -> str:
    """Return what a client can send next."""
    if isinstance(error, LaunchLacking):
        options, _ = lacking.completed(error)
        if options.startswith("--"):
            kernel = {"kernel": error.kernel} if error.kernel else {}
            return f"launch={_json({**kernel, **lacking.keywords(options)})}"
    if isinstance(error, UnknownKernel):
        return "list_kernels names all kernels; with file, those in a file"
    words = COMMAND.sub(lambda found: f"{found[1]} {_json({'kernel': found[2]})}", error.hint)
    words = OPTIONS.sub(lambda found: _launch(found[0]), words)
    words = re.sub(r"ncu-swizzle list\b", "list_kernels", words)
    return words.replace("--timeout", "the server's option --timeout")


def _launch(options: str) -> str:
    """Return options of the command line as the argument of a call."""
    text = options.rstrip(".,;:")
    try:
        words = shlex.split(text)
        given: dict[str, Any] = {}
        for option, value in zip(words[::2], words[1::2], strict=True):
            name = FIELDS.get(option[2:], option[2:])
            if name == "problem":
                size, _, number = value.partition("=")
                given.setdefault(name, {})[size] = int(number) if number.isdecimal() else number
            elif name in LISTS:
                given.setdefault(name, []).append(value)
            else:
                given[name] = int(value) if name == "sample" and value.isdecimal() else value
    except ValueError:
        return options
    return f"launch={_json(given)}{options[len(text) :]}"


def _json(content: Any) -> str:
    return in_json(content).strip()
