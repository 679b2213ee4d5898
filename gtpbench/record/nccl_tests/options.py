"""What nccl-tests' command line decides and its tables do not tell: registration, averaging, unusual conditions."""

from collections.abc import Sequence
from pathlib import Path

from gtpbench.arms import ARMS, ArmSpec, arm_named
from gtpbench.errors import UsageError
from gtpbench.record.nccl_tests.output import Output

_LONG_NAMES = {
    "-R": "--local_register",
    "-a": "--average",
    "-u": "--unalign",
    "-x": "--cta_policy",
    "-z": "--blocking",
}
_UNUSUAL = {"-u": "unaligned buffers", "-x": "a CTA policy"}
"""Options that make another case or arm of it, unless 0."""
_WINDOW_NCCL = 22700
"""NCCL without windows: nccl-tests turns `-R 2` into plain registration and says so in passing."""
_AVERAGES = {0: "rank 0's", 1: "mean over ranks of the", 2: "minimum over ranks of the", 3: "maximum over ranks of the"}


def whole_option(args: Sequence[str], name: str, *, path: Path, default: int = 0) -> int:
    """The last value of a short option, also given as `-R2`, `--local_register 2` or `--local_register=2`.

    Raises:
        UsageError: it is no whole number.
    """
    long_name, text = _LONG_NAMES[name], str(default)
    for word, following in zip(args, [*args[1:], ""], strict=True):
        if word in {name, long_name}:
            text = following
        elif word.startswith(f"{long_name}="):
            text = word.removeprefix(f"{long_name}=")
        elif word.startswith(name):
            text = word.removeprefix(name)
    if not text.isdecimal():
        raise UsageError(f"{path}: {name} {text!r} in the command line is no whole number")
    return int(text)


def arm_of(output: Output, *, named: str | None) -> ArmSpec:
    """The arm of an output: from `-R` in its command line, else the named one.

    Raises:
        UsageError: the file does not say and no arm is named, the two differ, no arm stands for what the file says, or
            the NCCL that it names has no windows.
    """
    if named is not None and (named not in ARMS or ARMS[named].family != "nccltests"):
        raise UsageError(f"--arm {named}: results of nccl-tests are of {' or '.join(_names())}")
    if output.args is None:
        if named is None:
            raise UsageError(
                f"{output.path}: the file does not say how buffers were registered (-R): name it with --arm "
                f"{' or '.join(_names())}, or import the JSON output (-J)"
            )
        spec = arm_named(named)
    else:
        spec = _told_arm(output.args, output.path)
        if named not in {None, spec.name}:
            raise UsageError(f"{output.path}: its command line says {spec.name}, --arm says {named}")
    if spec.registration == "window" and (output.nccl_version or _WINDOW_NCCL) < _WINDOW_NCCL:
        raise UsageError(f"{output.path}: its NCCL ({output.nccl_version}) has no windows: -R 2 registered plainly")
    return spec


def average_of(output: Output) -> str:
    """What nccl-tests did with the ranks' loop times, in words that `host-timed loop` completes (`-a`).

    Raises:
        UsageError: no kind of average.
    """
    if output.args is None:
        return "mean over ranks (or what -a said: not in the file) of the"
    kind = whole_option(output.args, "-a", path=output.path, default=1)
    if kind not in _AVERAGES:
        raise UsageError(f"{output.path}: unknown -a {kind}")
    return _AVERAGES[kind]


def _told_arm(args: Sequence[str], path: Path) -> ArmSpec:
    for name, what in _UNUSUAL.items():
        if value := whole_option(args, name, path=path):
            raise UsageError(f"{path}: {what} ({name} {value}): gtpbench has no such arm of nccl-tests")
    registration = whole_option(args, "-R", path=path)
    name = f"nccltests:{registration}"
    if name not in ARMS:
        plain = ", plain registration," if registration == 1 else ""
        raise UsageError(f"{path}: -R {registration}{plain} has no arm: only {' and '.join(_names())}")
    return arm_named(name)


def _names() -> list[str]:
    return [arm.name for arm in ARMS.values() if arm.family == "nccltests"]
