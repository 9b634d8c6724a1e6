"""Find a Chromium for the browser tests, or bring one: `python -m tests.browser.chromium`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


def find() -> str | None:
    """The path of a browser: NAPKIN_CHROMIUM, else one on the PATH, else Playwright's own."""
    for name in (os.environ.get("NAPKIN_CHROMIUM", ""), *NAMES):
        path = shutil.which(name) if name else None
        if path:
            return path
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = playwright.chromium.executable_path
    return path if Path(path).exists() else None


def bring() -> str | None:
    """Install one: with apt where that works, else Playwright's own."""
    if shutil.which("apt-get"):
        sudo = [] if hasattr(os, "geteuid") and os.geteuid() == 0 else ["sudo", "-n"]
        install = [*sudo, "apt-get", "install", "-y", "-qq", "--no-install-recommends", "chromium", "fonts-liberation"]
        for command in ([*sudo, "apt-get", "update", "-qq"], install):
            try:
                subprocess.run(command, check=True, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})
            except (OSError, subprocess.CalledProcessError) as error:
                print(f"apt did not bring a Chromium ({error}); trying Playwright's own", file=sys.stderr)
                break
        if find():
            return find()
    subprocess.run([sys.executable, "-m", "playwright", "install", "chromium"], check=False)
    return find()


if __name__ == "__main__":
    browser = find() or bring()
    if browser is None:
        sys.exit("no Chromium for the browser tests: install one, or set NAPKIN_CHROMIUM to its path")
    print(f"browser tests use {browser}")
