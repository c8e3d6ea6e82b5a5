"""Settings of `python -m verl.dph.evaluate`. sampling.py has the engine's settings."""

from typing import Literal

from rl.configuration.setting import MISSING, Count, Path, Section

PAPER_EXPERIMENTS = ("llama-sql", "omnisql-32b", "llama-math", "qwen-math")


class Evaluate(Section, at="evaluate"):
    """What is sampled and reported."""

    models: dict = MISSING
    """Models by their name in the report, e.g. {base: /models/base, grpo: outputs/grpo, dph_js:
    outputs/js/global_step_80}. A model is a Hugging Face folder, a checkpoint of verl's trainer (its FSDP shards are
    merged), or a run (its newest checkpoint)."""
    checkpoints: list[int] | Literal["all"] | None = None
    """Training steps, e.g. [40, 80], or all: earlier checkpoints of the models that are runs, up to N for a model that
    is global_step_N. The report then plots Pass@8 and greedy accuracy against steps."""
    methods: dict | None = None
    """What the report says about a model, e.g. {dph_js: {label: "DPH-JS, eta 0.2", family: DPH-JS, eta: 0.2}}. Models
    of one family differ only in eta, and the report plots their greedy accuracy against eta. role is control or gold
    (docs/reference/evaluation.md)."""
    benchmarks: list = []
    """Benchmarks, evaluated with the paper's settings, by their names in docs/howto/data.md, e.g. [bird, spider]. The
    benchmark of the training comes first."""
    data_folder: Path = "data"
    """Folder of the benchmarks' files, where the data commands write them."""
    splits: dict | None = None
    """Parquet files by split, in addition to the benchmarks or in place of theirs, e.g. {in_domain: a.parquet,
    out_of_domain: b.parquet}."""
    settings: dict | None = None
    """Overrides for single benchmarks and splits, e.g. {aime24: {n: 32, temperature: 1.0}}: n, temperature, top_p,
    top_k, max_prompt_length, max_response_length, greedy."""
    groups: list[str] | None = None
    """Keys of the rows' extra_info by which the report groups results, e.g. [difficulty, source]. null: difficulty, if
    the rows have it."""
    output: Path = MISSING
    """Folder for <model>/<split>.jsonl and, with a base, report.json, report.html and tables.md."""
    n: Count = 32
    """Samples per prompt of evaluate.splits, drawn with actor_rollout_ref.rollout's temperature, top_p, top_k and seed.
    The report has Pass@k for k up to n."""
    greedy: bool = True
    """Also draw one greedy response per prompt."""
    base: Path | None = None
    """Output folder of an earlier evaluation of base on the same prompts with the same settings, used instead of a
    model named base."""
    base_again: bool = True
    """Sample the base model a second time, independently, as base_again; this measures the keep rate's noise floor."""
    solved_in: Count = 8
    """The base solves a prompt if one of its first solved_in samples is correct."""
    styles_by: Literal["structure", "prefix", "none"] = "structure"
    """How SQL's solution styles differ: structure (syntax tree), prefix (leading comment, as in the paper) or none."""
    report: bool = True
    """Write the report if evaluate.models has a base."""
    title: str = "Evaluation"
    """Title of the report."""
    summary: str = ""
    """First paragraph of the report."""
    paper: Literal[PAPER_EXPERIMENTS] | None = None  # type: ignore
    """The paper's experiment whose figures the tables show beside ours. null: only ours."""
