"""A headless Chromium for the tests of the report: what it shows, logs and fetches."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from selenium import webdriver
from selenium.common.exceptions import NoAlertPresentException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.keys import Keys

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


class Box(NamedTuple):
    """Where an element is on the screen, in pixels."""

    left: float
    top: float
    right: float
    bottom: float

    @property
    def width(self) -> float:
        return self.right - self.left


class Browser:
    """One page at a time, and what became known of it since it was opened."""

    ENTER = Keys.ENTER
    RIGHT, LEFT, TAB = Keys.ARROW_RIGHT, Keys.ARROW_LEFT, Keys.TAB

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def open(self, page: Path) -> None:
        """Load a file; what was logged before is forgotten."""
        self.driver.get("about:blank")
        self.driver.get_log("browser")
        self.driver.get_log("performance")
        self.driver.get(page.as_uri())

    def script(self, code: str, *arguments: object) -> Any:
        return self.driver.execute_script(f"return {code}", *arguments)

    def click(self, selector: str) -> None:
        """Click on the first such element."""
        self.script("document.querySelector(arguments[0]).click()", selector)

    def count(self, selector: str) -> int:
        return int(self.script("document.querySelectorAll(arguments[0]).length", selector))

    def box(self, selector: str, number: int = 0) -> Box:
        """Return where an element is, the first such one or another."""
        element = "document.querySelectorAll(arguments[0])[arguments[1]]"
        sides = "(r => [r.left, r.top, r.right, r.bottom])"
        return Box(*self.script(f"{sides}({element}.getBoundingClientRect())", selector, number))

    def unfold(self, presses: str) -> None:
        """Click on these line numbers, and wait until the SASS is below each."""
        self.script(
            "(async () => { const all = [...document.querySelectorAll(arguments[0])];"
            " const rows = () => document.querySelectorAll('.under').length; const wanted = rows() + all.length;"
            " all.forEach(press => press.click());"
            " while (rows() < wanted) await new Promise(done => setTimeout(done, 10)); })()",
            presses,
        )

    def texts(self, selector: str) -> list[str]:
        """Return the texts of the elements as they are in the document, folded away or not."""
        found = self.script("[...document.querySelectorAll(arguments[0])].map(e => e.textContent)", selector)
        return [" ".join(text.split()) for text in found]

    def resize(self, width: int, height: int = 900) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def reset(self) -> None:
        """Forget what a test set: the window's size, the colour scheme, whether scripts run."""
        self.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
        self.scripting(True)

    def prefer(self, scheme: str) -> None:
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def press(self, key: str) -> None:
        """Press a key where the focus is."""
        self.driver.switch_to.active_element.send_keys(key)

    def download_to(self, folder: Path) -> None:
        settings = {"behavior": "allow", "downloadPath": str(folder)}
        self.driver.execute_cdp_cmd("Browser.setDownloadBehavior", settings)

    def scripting(self, allowed: bool) -> None:
        """Switch the page's own scripts on or off; ours go on working."""
        self.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": not allowed})

    def errors(self) -> list[str]:
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def fetched(self) -> list[str]:
        """Return every address that the page asked for, itself included."""
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        return [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]

    def violations(self, selector: str = "", rule: str = "") -> list[str]:
        """Return what axe-core finds wrong with the page, or an element: each rule, and what first breaks it."""
        axe = pytest.importorskip("axe_core_python", reason="needs axe-core-python")
        self.driver.execute_script(Path(axe.__path__[0], "axe.min.js").read_text(encoding="utf-8"))
        self.driver.set_script_timeout(300)  # of a busy machine
        code = "axe.run(arguments[0] || document, arguments[1] ? {runOnly: [arguments[1]]} : {}).then(arguments[2])"
        found = self.driver.execute_async_script(code, selector, rule)
        return [f"{rule['id']}: {rule['nodes'][0]['html'][:200]}" for rule in found["violations"]]

    def alerted(self) -> bool:
        try:
            self.driver.switch_to.alert.dismiss()
        except NoAlertPresentException:
            return False
        return True


@contextmanager
def chromium(user_data: Path) -> Iterator[Browser]:
    """Start Chromium with a profile of its own; skip the test where it is not installed."""
    binary = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    driver_binary = shutil.which("chromedriver")
    if not binary or not driver_binary:
        pytest.skip("needs chromium and chromedriver on the PATH")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in (*FLAGS, f"--user-data-dir={user_data}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    # Both leave folders in TMPDIR if they are ended before they are done.
    service = Service(driver_binary, env={**os.environ, "TMPDIR": str(user_data)})
    driver = webdriver.Chrome(options=options, service=service)
    try:
        yield Browser(driver)
    finally:
        driver.quit()
