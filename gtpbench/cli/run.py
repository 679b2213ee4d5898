"""`gtpbench run`."""

from gtpbench.cli import options as o


def command(
    scenario: o.ScenarioFile,
    *,
    num_ranks: o.NumRanks = None,
    ranks_per_gpu: o.RanksPerGpu = None,
    launches: o.Launches = None,
    time_budget: o.TimeBudget = None,
    seed: o.Seed = None,
    functional: o.Functional = False,
    out: o.Out = None,
    append: o.Append = False,
    allow_skip: o.AllowSkip = False,
    format: o.OutputFormat = o.Format.TABLE,
    save_scenario: o.SaveScenario = None,
) -> None:
    """Run a scenario file.

    A flag given here overrides the file.

    Example: gtpbench run scenarios/smoke/quickstart.toml --launches 2
    """
    from gtpbench.cli.execute import Request, execute
    from gtpbench.cli.override import Overrides

    overrides = Overrides(
        num_ranks=num_ranks,
        ranks_per_gpu=ranks_per_gpu,
        launches=launches,
        time_budget=time_budget,
        seed=seed,
        functional=functional,
        allow_skip=allow_skip,
    )
    execute(
        Request(
            scenario=lambda _num_gpus: overrides.apply(scenario),
            out=out,
            append=append,
            format=format.value,
            save_scenario=save_scenario,
        )
    )
