"""The program `dph compare`: report finished runs side by side, or methods over training seeds, without sampling."""

import argparse
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rl.common.cli import output_folder
from rl.common.errors import UserError
from rl.configuration.may_change import MAY_CHANGE, among
from rl.configuration.nesting import flat
from rl.data.training_run import VERDICT, newest_checkpoint, newest_manifest, step_of
from rl.evaluation.report.write import PAGE, REPORT, write_report

if TYPE_CHECKING:
    from rl.evaluation.spec import ReportSpec


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Report several finished runs side by side (report.html, report.json, pareto.svg), with their\n"
        "training curves. The samples come from their evaluations (RUN/evaluation, or an output folder of dph\n"
        "evaluate). Nothing is sampled.\n"
        "With --seeds, compare methods over training seeds: means, intervals and paired tests (seeds.md, seeds.json,\n"
        "pareto.svg), and a report of each seed.",
    )
    parser.add_argument("runs", type=Path, nargs="*", metavar="RUN", help="a run's folder, or one of dph evaluate")
    parser.add_argument(
        "--seeds",
        nargs="+",
        metavar="METHOD=RUN,RUN",
        help="instead of RUN: a method's runs, one per seed, in the same order of seeds for every method",
    )
    parser.add_argument(
        "--baselines",
        metavar="METHOD,METHOD",
        help="with --seeds: the methods that every other one is compared with (default: the first one)",
    )
    out_help = "folder for the reports and their specification"
    parser.add_argument("--out", type=output_folder, required=True, help=out_help)
    return parser


def main(arguments: list[str] | None = None) -> int:
    """
    Returns:
        The exit code.

    Raises:
        UserError: the runs cannot be compared; no report is written then.
    """
    options = parser().parse_args(arguments)
    if bool(options.runs) == bool(options.seeds):
        raise UserError("Name the runs to compare, or else the runs of each method with --seeds METHOD=RUN,RUN.")
    if options.baselines and not options.seeds:
        raise UserError("--baselines is for --seeds; leave it out: a report compares every two runs.")
    from rl.evaluation.compared_runs import EVALUATION, SPEC, comparison_spec, names_of

    methods = runs_of_methods(options.seeds or [])
    named = {} if options.seeds else names_of(options.runs)
    runs = [run.resolve() for run in [*named.values(), *chain(*methods.values())]]
    if options.out.resolve() in {folder for run in runs for folder in (run, run / EVALUATION)}:
        raise UserError(f"--out {options.out} holds one of the evaluations that are compared: name another folder.")
    if methods:
        _compare_seeds(methods, options.baselines, options.out)
        return 0
    spec = comparison_spec(named)
    write_report(spec, options.out)
    spec.write(options.out / SPEC)
    pictures = [path for kind in ("*.svg", "*.png") for path in sorted(options.out.glob(kind))]
    written = [options.out / REPORT, options.out / PAGE, *pictures]
    sys.stdout.writelines(f"{path}\n" for path in written)
    return 0


def runs_of_methods(words: Sequence[str]) -> dict[str, list[Path]]:
    """{method: its runs} from words METHOD=RUN,RUN; several words may name runs of one method.

    Raises:
        UserError: a word has another form, or the methods have different numbers of runs.
    """
    found: dict[str, list[Path]] = {}
    for word in words:
        method, _, runs = word.partition("=")
        if not re.fullmatch(r"[\w.+-]+", method) or not all(runs.split(",")):
            raise UserError(f"--seeds {word}: give METHOD=RUN,RUN with the folders of a method's runs.")
        found.setdefault(method, []).extend(Path(run).expanduser() for run in runs.split(","))
    from rl.evaluation.spec import LABELS  # loads pydantic, and help must not

    labels = Counter(LABELS.get(method, method) for method in found)
    if twice := [label for label, count in labels.items() if count > 1]:
        raise UserError(f"--seeds: two methods are called {twice[0]} in the tables: give one of them another name.")
    counts = {method: len(runs) for method, runs in found.items()}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{method} {count}" for method, count in counts.items())
        raise UserError(
            f"--seeds: the methods have different numbers of runs ({listed}), but seeds are compared in pairs: name as "
            "many runs of each."
        )
    return found


def _compare_seeds(methods: dict[str, list[Path]], baselines: str | None, out: Path) -> None:
    from rl.evaluation.report.seeds import write_seeds

    against = baselines.split(",") if baselines else [*methods][:1]
    if unknown := [name for name in against if name not in methods]:
        raise UserError(f"--baselines {baselines}: {unknown[0]} is not one of {', '.join(methods)}.")
    specs, names = _specs(methods)
    table = write_seeds(out, "seeds", specs, [names[name] for name in against])
    reports = [out / f"seed_{seed}" / PAGE for seed in specs]
    written = [table, out / "seeds.json", *sorted(out.glob("pareto*.svg")), *reports]
    sys.stdout.write(f"{table.read_text(encoding='utf-8')}\n" + "".join(f"{path}\n" for path in written))


def _seeds(methods: dict[str, list[Path]]) -> list[int]:
    """The runs' training seeds, which all methods share; counted from 1 if a run's checkpoint does not say it.

    Raises:
        UserError: two methods have other seeds, or the same ones in another order; a method has one twice, or its runs
            differ in more than their seeds.
    """
    from rl.evaluation.compared_runs import run_of_folder

    manifests = {
        method: {run: newest_manifest(run_of_folder(run)) or {} for run in runs} for method, runs in methods.items()
    }
    for method, of_runs in manifests.items():
        _require_one_method(method, of_runs)
    found = {
        method: [manifest.get("settings", {}).get("data", {}).get("seed") for manifest in of_runs.values()]
        for method, of_runs in manifests.items()
    }
    known = {name: [seed for seed in seeds if seed is not None] for name, seeds in found.items() if None not in seeds}
    listed = {method: ", ".join(map(str, seeds)) for method, seeds in known.items()}
    if len({*listed.values()}) > 1:
        each = "; ".join(f"{method}: {seeds}" for method, seeds in listed.items())
        raise UserError(f"--seeds pairs runs, but their seeds differ ({each}): name them in the same order of seeds.")
    for method, seeds in known.items():
        if len({*seeds}) < len(seeds):
            raise UserError(f"--seeds: the runs of {method} have the seeds {listed[method]}: name one of each seed.")
    if len(known) == len(methods):
        return known[[*methods][0]]
    unknown = ", ".join(name for name in methods if name not in known)
    sys.stderr.write(f"No checkpoint of a run of {unknown} says its seed: seeds are counted from 1, in your order.\n")
    return [*range(1, 1 + len([*methods.values()][0]))]


def _require_one_method(method: str, manifests: Mapping[Path, Mapping[str, Any]]) -> None:
    """Raise UserError if runs differ in more than seeds, data and what a resumed run may change.

    Args:
        manifests: by run, empty if it has none, and then nothing is compared.
    """
    known = {run: manifest for run, manifest in manifests.items() if manifest}
    if not known:
        return
    first, *others = known
    for run in others:
        one, other = (_decisive(of, known[of]) for of in (first, run))
        unlike = [key for key in sorted(one.keys() & other.keys()) if one[key] != other[key]]
        if unlike:
            listed = ", ".join(f"{key} {one[key]} and {other[key]}" for key in unlike[:8])
            raise UserError(
                f"--seeds {method}: {first} and {run} were trained differently ({listed}): a method's runs differ in "
                "seeds and data alone."
            )


def _decisive(run: Path, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """What runs of one method have in common, where the manifest says it."""
    found = {
        key: None if value == {} else value  # an empty section counts as null
        for key, value in flat(manifest["settings"])
        if not ("seed" in key or among(MAY_CHANGE, key))
    }
    from rl.evaluation.compared_runs import run_of_folder

    newest = newest_checkpoint(run_of_folder(run))
    said = {
        "the model": str(manifest["model"].get("model_hash", ""))[:12],
        "the last step": newest and step_of(newest),
        VERDICT: found.pop(VERDICT, ""),
    }
    return found | {name: value for name, value in said.items() if value}


def _specs(methods: dict[str, list[Path]]) -> "tuple[dict[int, ReportSpec], dict[str, str]]":
    """{seed: specification of its report}, all with the same base, and {method: its name there}."""
    from rl.evaluation.compared_runs import (
        comparison_spec,
        distinct,
        evaluated_step,
        method_name,
        model_of,
        read_candidate,
    )
    from rl.evaluation.spec import BASE, BASE_AGAIN, LABELS, WITH_DIVERGENCE

    seeds = _seeds(methods)
    runs = [(method, seed) for method in methods for seed in seeds]
    folders = distinct([run for of in methods.values() for run in of])
    named = {f"{method}_s{seed}": folder for (method, seed), folder in zip(runs, folders, strict=True)}
    steps: dict[str, dict[int | None, Path]] = {method: {} for method in methods}
    for (method, _), (name, folder) in zip(runs, named.items(), strict=True):
        evaluation = read_candidate(name, folder).evaluation
        if (models := len(evaluation.trained)) != 1:
            raise UserError(f"--seeds: {folder} holds an evaluation of {models} trained models: name a run per seed.")
        steps[method].setdefault(evaluated_step(model_of(evaluation, evaluation.trained[0])), folder)
    caveats = []
    for method, found in steps.items():
        if len(found) > 1:
            listed = ", ".join(f"{folder} at step {step or 'unknown'}" for step, folder in found.items())
            said = f"The runs of {method} were evaluated at different steps: {listed}."
            sys.stderr.write(f"{said}\n")
            caveats.append(said)
    whole = comparison_spec(named)
    whole = whole.model_copy(update={"caveats": [*whole.caveats, *caveats]})
    run_names = dict(zip(runs, whole.trained, strict=True))
    rehearse = {method for (method, _), name in run_names.items() if name.startswith(WITH_DIVERGENCE)}
    names: dict[str, str] = {}
    for method in methods:
        name = method_name(method, method in rehearse)
        names[method] = f"{name}_{method}" if name in names.values() else name
    bases = {name: whole.methods[name] for name in (BASE, BASE_AGAIN) if name in whole.methods}
    specs = {}
    for seed in dict.fromkeys(seed for _, seed in runs):
        of_seed = {
            names[method]: whole.methods[run_names[method, seed]].model_copy(
                update={"label": LABELS.get(method, method)}
            )
            for method in methods
        }
        title = f"{whole.title}, seed {seed}"
        specs[seed] = whole.model_copy(update={"title": title, "methods": bases | of_seed})
    return specs, names
