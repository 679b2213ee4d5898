"""The trust box: what was asked, where it ran, how much was sampled, what is proved, what the ratios rest on."""

from gtpbench.report.clocks import clocks_text
from gtpbench.report.model import RunView
from gtpbench.report.ratios import ABSOLUTE_FLOOR_US, LARGE_MARGIN, SMALL_MARGIN
from gtpbench.report.verdict import proof_text
from gtpbench.report.words import ORIGIN_TEXT, percent


def trust_lines(view: RunView) -> list[tuple[str, str]]:
    """(label, sentence) of each line."""
    return [
        ("asked", view.command or "not recorded"),
        ("where", _where(view)),
        ("sampled", _sampled(view)),
        *([("clocks", clocks)] if (clocks := clocks_text(view)) else []),
        ("proof", proof_text(view)),
        ("ratios", _ratios(view)),
        *([("detects", detects)] if (detects := _detects(view)) else []),
    ]


def _where(view: RunView) -> str:
    ranks = " and ".join(map(str, view.num_ranks)) + (" rank" if view.num_ranks == (1,) else " ranks")
    if not view.num_launches:
        return f"{ranks} · nothing ran to its end"
    origins = "; ".join(ORIGIN_TEXT[origin] for origin in view.origins)
    mixed = " (different origins are never compared)" if len(view.origins) > 1 else ""
    return f"{ranks} · {origins}{mixed}"


def _sampled(view: RunView) -> str:
    if not view.num_launches:
        return "nothing was timed"
    low, high = view.num_blocks
    blocks = ("1 block" if high == 1 else f"{low} blocks") if low == high else f"{low} to {high} blocks"
    launches = f"{view.num_launches} launch" + ("" if view.num_launches == 1 else "es")
    if view.num_launches != view.num_all_launches:
        launches = f"{view.num_launches} of {view.num_all_launches} launches"
    samples = [row.headline.summary.num_samples for row in view.rows if row.headline]
    samples += [row.register.num_samples for row in view.registration_rows if row.register]
    few, many = min(samples), max(samples)
    counted = ("1 sample" if many == 1 else f"{few} samples") if few == many else f"{few} to {many} samples"
    return f"{launches} × {blocks} · {counted} a row"


def _ratios(view: RunView) -> str:
    compared = [row.comparison for row in view.rows if row.comparison]
    if view.registrations:
        return "none: what registration costs is shown, not compared"
    if not compared:
        reasons = [row.no_ratio for row in view.rows if row.no_ratio]
        told = dict.fromkeys(reason.text for reason in reasons if reason.code not in {"baseline", "skipped"})
        return "none" + (f": {'; '.join(told)}" if told else ", nothing to compare")
    units = {comparison.within_one_launch for comparison in compared}
    scope = "within one launch" if True in units else "over launches"
    if True not in units and not all(comparison.launch_variance_covered for comparison in compared):
        scope = "over block pairs of few launches"
    cells = f", corrected over {len(compared)} cells" if len(compared) > 1 else ""
    demonstration = "a demonstration, no claim about symmetric memory on GPUs: " if "cpu" in view.origins else ""
    return (
        f"{demonstration}against {view.baseline}, 95 % intervals {scope}{cells}; up to {percent(SMALL_MARGIN)} below "
        f"1MiB, {percent(LARGE_MARGIN)} from there on, or {ABSOLUTE_FLOOR_US} us counts as the same"
    )


def _detects(view: RunView) -> str | None:
    """The smallest change that would be found, over the compared rows; None where there are none."""
    compared = [row.comparison for row in view.rows if row.comparison]
    if not compared:
        return None
    effects = [item.minimum_detectable_ratio - 1 for item in compared if item.minimum_detectable_ratio is not None]
    if not effects:
        return "nothing: too few pairs for any change to reach significance"
    low, high = min(effects), max(effects)
    span = percent(low) if percent(low) == percent(high) else f"{percent(low)} to {percent(high)}, by row"
    blind = len(compared) - len(effects)
    rest = f"; nothing in {blind} of {len(compared)} rows" if blind else ""
    return f"slowdowns of {span}, 9 times in 10, before correction{rest}"
