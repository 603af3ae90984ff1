"""What the site changes in the pages: files outside docs/ are named, not linked; new pages appear.

The same Markdown is read in the repository, where `../src/hmt/...` leads somewhere, and on the
site, where it does not. Pages that the navigation does not list yet are put under "More".
"""

import re
from pathlib import Path
from typing import Any

LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#\s]+)(#[^)\s]*)?\)")


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Links that leave docs/ become plain text; code stays as it is."""
    folder = Path(config.docs_dir)
    own = (folder / page.file.src_uri).parent

    def shown(link: re.Match[str]) -> str:
        if "://" in link[2] or link[2].startswith("mailto:"):
            return link[0]
        target = (own / link[2]).resolve()
        return link[0] if target.is_relative_to(folder.resolve()) else link[1]

    parts = re.split(r"(^```.*?^```)", markdown, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("```") else LINK.sub(shown, part) for part in parts)


def on_config(config: Any) -> Any:
    """Pages that nobody has put into the navigation."""
    listed = set(re.findall(r"[\w./-]+\.md", str(config.nav)))
    folder = Path(config.docs_dir)
    pages = (path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*.md")))
    if more := [page for page in pages if page not in listed]:
        config.nav.append({"More": more})
    return config
