"""Settings of pre-sampling, `python -m verl.dph.presample`; those of the engine are in sampling.py."""

from rl.configuration.setting import MISSING, Count, Path, Paths, Setting

PRESAMPLE = (
    Setting(
        "presample.n",
        Count,
        8,
        "Samples per prompt, drawn with actor_rollout_ref.rollout's temperature, top_p, top_k and seed.",
    ),
    Setting(
        "presample.output",
        Path,
        MISSING,
        "The samples, one JSON line each (rl/data/sample_file.py); an unfinished file with the same settings is "
        "resumed.",
    ),
    Setting(
        "presample.log_probs", bool, True, "Store the engine's log-prob of every response token; false halves the file."
    ),
    Setting(
        "presample.max_in_flight",
        Count | None,
        None,
        "Concurrent requests to the engine; null: twice what the replicas can batch.",
    ),
    Setting("data.train_files", Paths | None),  # verl's
)
