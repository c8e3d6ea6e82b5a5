"""The programs that Hydra configures; each checks all settings of its sections."""

from rl.configuration.evaluate import Evaluate
from rl.configuration.sampling import PRESAMPLE, SAMPLING
from rl.configuration.scorer import SCORER
from rl.configuration.setting import Section
from rl.configuration.training import TRAINING

# Their sections, by the names of their files in verl/dph/config.
PROGRAMS: dict[str, tuple[type[Section], ...]] = {
    "dph_trainer": (*TRAINING, *SCORER),
    "presample": (*PRESAMPLE, *SCORER),
    "evaluate": (Evaluate, *SAMPLING, *SCORER),
}
