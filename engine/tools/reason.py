"""Why a program ended: the line in its standard error that says so.

Runtimes, launchers and containers write more after that line: frames, versions, hints. Pure.
"""

import re

_ESCAPE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_LEAD = re.compile(r"^\s*(?:(?:[|│] )+|(?=[×╰]))")  # of groups of exceptions; of uv
_AFTER = re.compile(r"^(?:goroutine \d+ \[|Exception ignored in)", re.MULTILINE)
_ERROR = re.compile(
    r"^×|\berr!|\b(?:error|fatal|panic|panicked|unhandled|uncaught)\b|\w(?:Error|Exception)\b|\bERR_",
    re.IGNORECASE,
)
_NOT_IT = re.compile(  # what surrounds a reason
    r"[-+^~{}\])]+$|Traceback|During handling|The above exception|For further information"
    r"|Node\.js v|Bun v|\(Use `|\(node:\d+\)|note: |hint: |help: |info |npm (?:warn|notice)"
    r"|npm err(?:or|!)(?: +\d*$|  |$| (?:code|syscall|path|errno|A complete log|Lifecycle) )"
    r"|error Command failed|ELIFECYCLE|exit status|\[signal|(?:See|Run|Try) '|usage|options:$",
    re.IGNORECASE,
)
_GOES_ON = re.compile(r":$|validation errors? for ")
_MOST_LINES = 3  # of what goes on


def reason(text: str) -> str:
    """The line of `text` with the error that ended a program, and what that announces; else the
    last line that says anything. Empty if there is none."""
    text = _ESCAPE.sub("", text)
    after = _AFTER.search(text)
    text = (after and text[: after.start()].strip()) or text
    lines = [line for each in text.splitlines() if (line := _LEAD.sub("", each).rstrip())]
    heads = [n for n, line in enumerate(lines) if not line[0].isspace()]  # others are frames
    last, found, traced = len(lines) - 1, -1, False
    for n in heads:
        if lines[n].startswith("Traceback"):
            traced = True
        elif not _NOT_IT.match(lines[n]):
            last = n
            both = {lines[n][:5].lower(), lines[found][:5].lower() if found >= 0 else ""}
            if (traced or _ERROR.search(lines[n])) and both != {"npm e"}:  # its first line says it
                found, traced = n, False
    found = found if found >= 0 else last
    said = lines[found : found + 1]
    if said and _GOES_ON.search(said[0]):
        for line in lines[found + 1 : found + 1 + _MOST_LINES]:
            if _NOT_IT.match(line.strip()):
                break
            said.append(line)
    return " ".join(line.strip(" ×╰─▶") for line in said)
