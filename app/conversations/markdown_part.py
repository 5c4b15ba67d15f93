"""Makes a text a part of a Markdown file, which other programs show: nothing in it is loaded, all
headings are below the file's own, and blocks that it leaves open are closed."""

import re

from markdown_it import MarkdownIt

_LINE = re.compile(r"[^\r\n]*(?:\r\n?|\n)")
_HARMLESS = (
    r"/?(?:a|b|strong|i|em|u|ins|mark|s|strike|del|small|su[bp]|kbd|code|summary|span|font|q|p|div"
    r"|center|section|details|[uo]l|li|h[1-6]|[bh]r|table|t(?:head|body|foot|[rhd])|blockquote)"
    r"(?:[\s/](?:(?!\b(?:style|background|on\w+)\s*=)[^<>])*)?>|https?:|mailto:|[^<>\s/]+@"
)
_TAG = rf"<(?=[a-z/!?])(?!{_HARMLESS})"
_IN_HTML = re.compile(_TAG, re.IGNORECASE)
_IN_TEXT = re.compile(  # a sign after a backslash, code, a picture, what may be one, a tag
    rf"(\\.|(`+)(?!`).*?(?<!`)\2(?!`))|(!)(?=\[[^\[\]]*\][(\[])|!(?=\[)|{_TAG}", re.I | re.S
)
_NESTING = 100  # levels


def unloaded(text: str) -> str:
    """Return a paragraph whose pictures are links, and whose HTML is shown if it may load any."""
    safe = {"<": "&lt;", "!": "!\\"}
    return _IN_TEXT.sub(lambda m: m[1] or ("" if m[3] else safe[m[0]]), text)


def part(text: str) -> str:
    """Return Markdown as a part of a file, below a heading of level 2."""
    md = MarkdownIt("commonmark", {"maxNesting": _NESTING}).enable("table")
    lines, end, folds = _LINE.findall(f"{text}\n"), "", 0
    for token in reversed(md.parse("".join(lines))):
        first, last = token.map or (0, 0)
        own = "".join(lines[first:last])
        match token.type:
            case "inline" | "html_block":
                own = unloaded(own) if token.type == "inline" else _IN_HTML.sub("&lt;", own)
                lines[first:last] = _LINE.findall(own)
                folds += own.lower().count("<details") - own.lower().count("</details")
            case "heading_open" if token.markup[0] == "#":
                lines[first] = own.replace(token.markup, f"##{token.markup}"[:6], 1)
            case "heading_open" if not token.level:  # underlined
                lines[first:last] = ["### " + " ".join(own.splitlines()[:-1]) + "\n"]
            case "fence" if not token.level and last - first < token.content.count("\n") + 2:
                end = f"\n{token.markup}"
    return "".join(lines)[:-1] + end + "\n\n</details>" * folds
