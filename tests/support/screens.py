"""Pictures of screens that are compared with those of before: `pytest --snapshot-update` writes them anew.

What differs from run to run (times, ids, folders) is the same in all of them, and no picture names a font from the
network.
"""

from __future__ import annotations

import re
from typing import Any

from pytest_textual_snapshot import SVGImageExtension

_FONT = re.compile(r"\s*@font-face \{.*?\}|<!--.*?-->", re.DOTALL)
_IDS = re.compile(r"\b[0-9a-f]{7,64}\b")
_STAMPS = re.compile(r"\d{8}T\d{6}Z")
_TIMES = re.compile(r"(\d{4}-)?\d\d-\d\d((?:&#160;)+\d\d:\d\d(:\d\d)?)?")


class Screens(SVGImageExtension):  # type: ignore[misc] # it has no types
    """One picture a file, beside the tests."""

    def serialize(self, data: Any, **options: Any) -> Any:
        """The picture without what differs."""
        text = _FONT.sub("", str(super().serialize(data, **options)))
        text = _STAMPS.sub("20260101T000000Z", text)
        text = _IDS.sub(lambda found: "0" * len(found[0]), text)
        return _TIMES.sub(lambda found: re.sub(r"\d(?!\d*;)", "1", found[0]), text)
