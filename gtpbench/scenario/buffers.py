"""Files that list the buffers of one set, such as those of a whole model."""

import re
from pathlib import Path

from gtpbench.errors import UsageError
from gtpbench.units import parse_size


def read_buffers(path: Path) -> tuple[int, ...]:
    """Bytes of every buffer in a file, in its order: one a line, `64M` or `NAME 64M`; `#` begins a comment.

    Raises:
        UsageError: the file cannot be read, has a line that is no size, or lists nothing; names file and line.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise UsageError(f"buffers {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"buffers {path}: not text: {error}") from error
    told = [(number, line.partition("#")[0].split()) for number, line in enumerate(lines, start=1)]
    sizes = tuple(_size(words, where=f"buffers {path}:{number}") for number, words in told if words)
    if not sizes:
        raise UsageError(f"buffers {path}: lists no buffer")
    return sizes


def set_name(path: Path) -> str:
    """What a file's set is called: the file's name without ending, with `-` for what names may not hold."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", path.stem).lstrip("._-")[:80] or "listed"


def _size(words: list[str], *, where: str) -> int:
    if len(words) > 2:
        raise UsageError(f"{where}: one buffer a line, as `64M` or `NAME 64M`; given {' '.join(words)!r}")
    try:
        size = parse_size(words[-1])
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error
    if not size:
        raise UsageError(f"{where}: a buffer of 0 B")
    return size
