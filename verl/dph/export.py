"""Write a trained policy as a Hugging Face folder: `python -m verl.dph.export RUN OUT` (docs/howto/runs.md)."""

import os
import shlex
import shutil
import sys
import tempfile
from pathlib import Path

from rl.common.cli import user_errors_exit
from rl.common.errors import UserError, file_errors
from rl.common.text import in_bytes
from rl.data.training_run import BEST, MANIFEST, RECORD, Run, checkpoint_folder, named_step, newest_checkpoint
from rl.launch.commands import export_parser
from verl.dph.sampling.checkpoint import MERGED_FROM, check_model, temporary_model_folder


def main(arguments: list[str] | None = None) -> None:
    options = export_parser().parse_args(arguments)
    with user_errors_exit():
        checkpoint = checkpoint_of(options.model, best=options.best)
        export(checkpoint, options.out, trust_remote_code=options.trust_remote_code)
        size = sum(file.stat().st_size for file in options.out.iterdir())
        folder = shlex.quote(str(options.out))
        sys.stdout.write(
            f"Exported {checkpoint} to {options.out} ({in_bytes(size)}).\n"
            f"Serve it: vllm serve {folder}\nPublish it: hf upload USER/NAME {folder}\n"
        )


def checkpoint_of(model: str, *, best: bool) -> Path:
    """The checkpoint folder (global_step_N) to export.

    Args:
        model: the folder of a run (its newest checkpoint) or of a checkpoint.
        best: take the run's checkpoint with the best validation instead.

    Raises:
        UserError: there is no such checkpoint.
    """
    run = Run.of(model)
    if run is None:
        if (Path(model).expanduser() / RECORD).is_file():
            raise UserError(f"{model} is a run without a checkpoint: set trainer.save_freq when you train.")
        raise UserError(f"{model} is neither a run nor a checkpoint of one: name the folder of either.")
    if best and newest_checkpoint(Path(model).expanduser()) is None:
        raise UserError(f"{model} is one checkpoint, and --best chooses among a run's: name {run.folder}.")
    step = named_step(run.folder / BEST) if best else run.step
    if step is None:
        raise UserError(f"{run.folder} has no {BEST}: no validation was at a step with a checkpoint; leave out --best.")
    checkpoint = checkpoint_folder(run.folder, step)
    if not checkpoint.is_dir():
        raise UserError(f"{checkpoint} does not exist: name another checkpoint of {run.folder}.")
    return checkpoint


def export(checkpoint: Path, out: Path, *, trust_remote_code: bool) -> None:
    """Write weights, configuration, tokenizer and the run's manifest, all or nothing.

    Args:
        checkpoint: global_step_N of a run.
        out: a folder that does not exist yet.

    Raises:
        UserError: `out` exists or cannot be written, or the checkpoint cannot be read.
    """
    if out.exists():
        raise UserError(f"{out} exists: name another folder, or delete it.")
    check_model(str(checkpoint))
    with file_errors(out, "written", "make room, or name another"):
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as temporary:
            aside, merged = Path(temporary) / "model", Path(temporary) / "merged"
            with temporary_model_folder(str(checkpoint), merged, trust_remote_code) as source:
                shutil.copytree(source, aside, ignore=shutil.ignore_patterns(MERGED_FROM))
            if (checkpoint / MANIFEST).is_file():  # checkpoints of other programs have none
                shutil.copy(checkpoint / MANIFEST, aside / "training_manifest.json")
            os.replace(aside, out)


if __name__ == "__main__":
    main()
