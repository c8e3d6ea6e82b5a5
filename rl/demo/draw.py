"""What has random numbers of its own in the demo and the study.

The questions, the base model and its samples are drawn once in a folder. The demo has one split, its stores and its
evaluations; the study has those of each seed.
"""

from dataclasses import dataclass
from pathlib import Path

EVALUATION_SEED = 100  # added to the seed, so that an evaluation does not repeat the pre-sampling


@dataclass(frozen=True)
class Draw:
    """What has a seed of its own: the split, the stores (all from the same samples), and every evaluation.

    Attributes:
        folder: of the files of split and stores.
        suffix: of the stages' names.
        words: overrides for the programs that read or write the files.
    """

    folder: Path
    seed: int
    suffix: str = ""
    words: tuple[str, ...] = ()

    @classmethod
    def beside_others(cls, data: Path, seed: int, samples: Path) -> "Draw":
        """A seed's split and stores beside those of other seeds.

        Args:
            data: the folder of all.
            samples: of the base model.
        """
        folder = data / f"seed_{seed}"
        words = (f"launch.data={folder}", f"launch.samples={samples}")
        return cls(folder, seed, f"_s{seed}", words)

    @property
    def evaluation_seed(self) -> int:
        """Every seed samples with its own random numbers. With the same ones the chance in them would be in all seeds
        alike, and no interval over seeds would show it."""
        return self.seed + EVALUATION_SEED
