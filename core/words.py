"""The one translation function: every word on screen passes through it.

``_("{n} trials").format(n=3)``: the message is a constant, the figures go in afterwards, so that a catalogue can be
made with any gettext tool. The words of a page live in ``pages/_prose/<language>``; labels and sentences that carry
figures live beside the code, in English, inside ``_``.
"""

from __future__ import annotations

import functools
import gettext
import os
from pathlib import Path

LOCALE_FOLDER = Path(__file__).resolve().parent.parent / "pages" / "_prose" / "locale"


@functools.cache
def language() -> str:
    """The language of the app for the life of the process: NAPKIN_LANGUAGE, or English."""
    return os.environ.get("NAPKIN_LANGUAGE", "en")


@functools.cache
def _translations(code: str) -> gettext.NullTranslations:
    return gettext.translation("napkin", LOCALE_FOLDER, languages=[code], fallback=True)


@functools.cache  # asked for 50 times in a rerun
def _(message: str) -> str:
    """The message in the language of the app; itself where there is no translation.

    >>> _("measured")
    'measured'
    """
    return _translations(language()).gettext(message)


def plural(one: str, many: str, n: int) -> str:
    """The form of the message that the number asks for.

    >>> plural("{n} trial", "{n} trials", 3).format(n=3)
    '3 trials'
    """
    return _translations(language()).ngettext(one, many, n)
