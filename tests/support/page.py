"""A page of HTML, as `html.parser` reads it."""

from __future__ import annotations

from html.parser import HTMLParser

_VOID = ("meta", "input", "line")


class Page(HTMLParser):
    """The tags, attributes and text of a page. Every tag is closed by its own end."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == [], "every tag is closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"'{tag}' closes nothing"

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text += data


def assert_harmless(page: Page, attributes: set[str]) -> None:
    """Nothing of the page is loaded or run, it has only these attributes, and all its text can be seen."""
    names = {tag for tag, _ in page.tags}
    assert not names & {"script", "img", "iframe", "link", "object", "embed", "base", "form", "h4"}
    targets = {f"#{found['id']}" for _, found in page.tags if "id" in found}
    for tag, found in page.tags:
        assert set(found) <= attributes, (tag, found)
        assert found.get("href") in (None, *targets)
        assert not any("url(" in (value or "") for value in found.values())
        for value in found.values():
            assert value is None or value.replace("\n", " ").isprintable(), found
    for char in page.text:
        assert char == "\n" or char.isprintable(), hex(ord(char))
    assert any(tag == "meta" and "default-src 'none'" in (found.get("content") or "") for tag, found in page.tags)
