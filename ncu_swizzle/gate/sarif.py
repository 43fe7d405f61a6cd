"""A verdict as SARIF 2.1.0: failures and errors at their source lines, inconclusive checks as open; no passes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

from ncu_swizzle import digest
from ncu_swizzle.gate.verdict import CRITERIA, Check, CorrectedFile, Correction, Outcome, Place, Replacement, Verdict
from ncu_swizzle.ncu.system import System
from ncu_swizzle.texts import in_json, one_line

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
IDS = list(CRITERIA)


def render(verdict: Verdict) -> str:
    """Return the log as JSON. A check without a location is a notification: code scanning rejects such results."""
    reported = [check for check in verdict.checks if check.outcome is not Outcome.passed]
    run = {
        "tool": {"driver": _driver()},
        "columnKind": "unicodeCodePoints",
        "invocations": [
            {
                "executionSuccessful": True,
                "toolExecutionNotifications": [_notification(check) for check in reported if not check.place],
            }
        ],
        "results": [_result(check, check.place, verdict.corrections) for check in reported if check.place],
    }
    return in_json({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1)


def _driver() -> dict[str, Any]:
    version = System().package_version("ncu-swizzle")  # unknown in a checkout that is not installed
    return {
        "name": "ncu-swizzle",
        **({"semanticVersion": version} if version else {}),
        "rules": [
            {"id": name, "shortDescription": {"text": text}, "defaultConfiguration": {"level": "error"}}
            for name, text in CRITERIA.items()
        ],
    }


def _result(check: Check, place: Place, corrections: Sequence[Correction]) -> dict[str, Any]:
    failed = check.outcome is not Outcome.inconclusive
    fixes = [_fix(correction) for correction in corrections if correction.corrects(check)]
    headers = list(enumerate(place.through, 1))
    return {
        "ruleId": check.criterion,
        "ruleIndex": IDS.index(check.criterion),
        "kind": "fail" if failed else "open",
        "level": "error" if failed else "none",
        "message": {"text": _message(check)},
        "locations": [_location(place)],
        **({"relatedLocations": [_related(number, header) for number, header in headers]} if headers else {}),
        **({"fixes": fixes} if fixes else {}),
        # Identifies the finding in later runs, even if its line moves.
        "partialFingerprints": {"check/v1": digest.sha256_of_texts(check.title)},
    }


def _fix(correction: Correction) -> dict[str, Any]:
    changes = [_change(file) for file in correction.files]
    return {"description": {"text": _escaped(correction.description)}, "artifactChanges": changes}


def _change(corrected: CorrectedFile) -> dict[str, Any]:
    """Return the change of a file: whole lines are deleted, or others inserted before one."""
    replacements = [
        {"deletedRegion": _lines(made), **({"insertedContent": {"text": made.text}} if made.text else {})}
        for made in corrected.replacements
    ]
    return {"artifactLocation": _artifact(corrected.file), "replacements": replacements}


def _lines(made: Replacement) -> dict[str, int]:
    return {"startLine": made.first, "startColumn": 1, "endLine": made.first + made.count, "endColumn": 1}


def _notification(check: Check) -> dict[str, Any]:
    level = "warning" if check.outcome is Outcome.inconclusive else "error"
    return {"level": level, "message": {"text": _message(check)}, "associatedRule": {"id": check.criterion}}


def _message(check: Check) -> str:
    """Return the message escaped: in SARIF text, brackets make links and braces placeholders."""
    return _escaped(f"{check}.")


def _escaped(message: str) -> str:
    text = one_line(message).replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]")
    return text.replace("{", "{{").replace("}", "}}")


def _location(place: Place) -> dict[str, Any]:
    region = {"region": {"startLine": place.line}} if place.line else {}
    return {"physicalLocation": {"artifactLocation": _artifact(place.file), **region}}


def _related(number: int, header: Place) -> dict[str, Any]:
    return {"id": number, **_location(header), "message": {"text": "inlined from here"}}


def _artifact(file: str) -> dict[str, str]:
    uri = quote(file.encode("utf-8", "replace"))
    if PurePosixPath(file).is_absolute():
        return {"uri": f"file://{uri}"}
    return {"uri": uri, "uriBaseId": "%SRCROOT%"}
