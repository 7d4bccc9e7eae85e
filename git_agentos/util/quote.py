r"""Names and text that cannot harm a terminal.

A file name may hold any byte but NUL and `/`, a description any character. What is shown to people is
quoted as git does with `core.quotePath=false`: a name that holds a control character, a quote, a backslash
or bytes that are no UTF-8 is put in double quotes with C escapes (`"a\tb"`, `"bad\377"`). Unlike git, a
character that is valid but not printable (the C1 controls, which some terminals obey; marks that turn the
direction of writing) is escaped as well.
"""

from __future__ import annotations

import re

_ESCAPES = {"\a": "\\a", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\v": "\\v", "\f": "\\f", "\r": "\\r"}
_TO_QUOTE = {**_ESCAPES, '"': '\\"', "\\": "\\\\"}
# The bytes of a file that must not reach a terminal: all control characters but line ends and tabs.
_UNSAFE_BYTES = rb"[\x00-\x08\x0b-\x1f\x7f]"


def path(name: str) -> str:
    """A path as `os.fsdecode` gives it, quoted if necessary."""
    if name.isprintable() and '"' not in name and "\\" not in name:
        return name
    return '"' + "".join(_TO_QUOTE.get(char) or _char(char) for char in name) + '"'


def line(text: str) -> str:
    """Free text on one line: everything that is not printable is escaped, line ends included."""
    if text.isprintable():
        return text
    return "".join(_ESCAPES.get(char) or _char(char) for char in text)


def block(text: str) -> str:
    """Free text that may have several lines."""
    return "\n".join(line(part) for part in text.replace("\r\n", "\n").split("\n"))


def contents(data: bytes) -> str:
    """A file's bytes for a terminal: text and tabs as they are, controls and invalid bytes made visible."""
    shown = re.sub(_UNSAFE_BYTES, lambda found: b"\\%03o" % found[0][0], data.replace(b"\r\n", b"\n"))
    text = shown.decode("utf-8", "surrogateescape")
    if text.isascii():
        return text
    return "".join(char if char in "\n\t" or char.isprintable() else _char(char) for char in text)


def _char(char: str) -> str:
    if char.isprintable():
        return char
    try:
        encoded = char.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        # A surrogate that stands for no byte: it does not come from a file name.
        return f"\\u{ord(char):04x}"
    return "".join(f"\\{byte:03o}" for byte in encoded)
