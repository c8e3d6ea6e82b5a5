"""Pass@k and greedy accuracy of a run's checkpoints, by training step."""

from rl.evaluation.analysis.comparison import Comparison, read_greedy, require_same_sampling
from rl.evaluation.analysis.samples import read_judged, require_same_prompts
from rl.evaluation.spec import BASE, SplitFiles
from rl.metrics.bootstrap import Interval, mean_interval
from rl.metrics.pass_at_k import pass_at_k

# {method: {split: {training step: {metric: [value, low, high]}}}}; metrics are pass@K of solved_in, and greedy
Progress = dict[str, dict[str, dict[int, dict[str, Interval | None]]]]


def read_progress(comparison: Comparison) -> Progress:
    """Metrics of every method that has checkpoints, with the base as step 0.

    Raises:
        UserError: a checkpoint's file is invalid, or differs from the base in prompts or sampling settings.
    """
    spec = comparison.spec
    wanted = ("greedy", f"pass@{spec.solved_in}")
    found: Progress = {}
    for name, method in spec.methods.items():
        for step, checkpoint in sorted(method.checkpoints.items(), key=lambda item: int(item[0])):
            for split, files in checkpoint.splits.items():
                if split not in found.setdefault(name, {}):
                    of_base = comparison.metrics[BASE][split]
                    found[name][split] = {0: {m: mean_interval(of_base[m]) for m in wanted if m in of_base}}
                found[name][split][int(step)] = _of_checkpoint(comparison, split, files)
    return found


def _of_checkpoint(comparison: Comparison, split: str, files: SplitFiles) -> dict[str, Interval | None]:
    spec, base = comparison.spec, comparison.samples[BASE][split]
    samples = read_judged(files.samples)
    require_same_prompts(samples, base)
    require_same_sampling(samples, base)
    greedy = read_greedy(files, samples)
    solved = pass_at_k(samples.correct.sum(axis=1), samples.n, spec.solved_in)
    values = {} if greedy is None else {"greedy": mean_interval(greedy.correct[:, 0].astype(float))}
    return values | {f"pass@{spec.solved_in}": mean_interval(solved)}
