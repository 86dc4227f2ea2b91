"""Pages of reports, read as a browser reads them: elements, ids and words."""

from html.parser import HTMLParser
from pathlib import Path

VOID = {"meta", "link", "br", "img", "input", "hr", "wbr"}


class Balance(HTMLParser):
    """Collects elements, and complains of tags that are not closed in order and ids used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open[-1] == tag, f"</{tag}> closes <{self.open[-1]}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def parsed(page: Path) -> Balance:
    """A page that is balanced, and whose ids are its own."""
    balance = Balance()
    balance.feed(page.read_text("utf-8"))
    balance.close()
    assert balance.open == []
    ids = [attributes["id"] for _, attributes in balance.seen if "id" in attributes]
    assert len(ids) == len(set(ids))
    return balance


def words(page: Path) -> str:
    """The words of a page that is balanced, with single spaces."""
    return " ".join(" ".join(parsed(page).text).split())
