"""`gtpbench plan`."""

from gtpbench.cli import options as o


def command(
    scenario: o.ScenarioFile,
    *,
    num_ranks: o.NumRanks = None,
    ranks_per_gpu: o.RanksPerGpu = None,
    launches: o.Launches = None,
    time_budget: o.TimeBudget = None,
    format: o.PlanOutputFormat = o.PlanFormat.TABLE,
) -> None:
    """Show what a scenario would run.

    Cases, arms, worker sets, launches and estimated time; nothing is started.

    Example: gtpbench plan scenarios/smoke/quickstart.toml
    """
    from gtpbench.cli.output import emit
    from gtpbench.cli.override import Overrides
    from gtpbench.cli.plan_text import plan_text

    overrides = Overrides(
        num_ranks=num_ranks,
        ranks_per_gpu=ranks_per_gpu,
        launches=launches,
        time_budget=time_budget,
        seed=None,
        functional=False,
        allow_skip=False,
    )
    emit(plan_text(overrides.apply(scenario), as_json=format is o.PlanFormat.JSON))
