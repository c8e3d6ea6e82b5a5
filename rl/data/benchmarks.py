"""The data sets of the paper, and others of its tasks: names, row ids, files, and how the paper samples them."""

from dataclasses import dataclass

SQL, MATH = "sql", "math"


@dataclass(frozen=True)
class Dataset:
    """One split of a data set that `dph prepare` writes.

    Attributes:
        name: also its rows' data_source.
        id_block: its rows' ids are id_block * 10,000,000 + the record's number. Prepared files hold these: add entries
            with new numbers, change none. 214 blocks fit into 31 bits.
        label: the paper's name for a benchmark.
        samples: per prompt in the paper's evaluation; None if `evaluate` has no preset.
        aliases: what its folder or file is called elsewhere.
    """

    name: str
    split: str
    kind: str
    id_block: int
    label: str = ""
    samples: int | None = None
    aliases: tuple[str, ...] = ()

    @property
    def file(self) -> str:
        """Where the commands of docs/howto/data.md write it, relative to the data folder."""
        return f"sql/{self.name}_{self.split}.parquet" if self.kind == SQL else f"math/{self.name}.parquet"


DATASETS = (
    Dataset("bird", "train", SQL, 1),
    Dataset("bird", "dev", SQL, 2, "Bird", samples=16),
    Dataset("bird", "test", SQL, 3),
    Dataset("spider", "train", SQL, 4),
    Dataset("spider", "dev", SQL, 5, "Spider", samples=16),
    Dataset("spider", "test", SQL, 6),
    Dataset("math_dapo", "train", MATH, 7),
    Dataset("aime24", "test", MATH, 8, "AIME24", samples=64, aliases=("aime2024", "aime_2024")),
    Dataset("aime25", "test", MATH, 9, "AIME25", samples=64, aliases=("aime2025", "aime_2025")),
    Dataset("amc23", "test", MATH, 10, "AMC23", samples=16, aliases=("amc2023", "amc_2023")),
    Dataset("math500", "test", MATH, 11, "Math500", samples=8, aliases=("math-500", "math_500")),
    Dataset("olympiadbench", "test", MATH, 12, "Olympiad", samples=8, aliases=("olympiad_bench", "olympiad")),
    Dataset("minerva_math", "test", MATH, 13, "Minerva", samples=8, aliases=("minerva",)),
    Dataset("college_math", "test", MATH, 14, "College Math", samples=8, aliases=("collegemath",)),
    Dataset("gsm8k", "test", MATH, 15),
    # Not the paper's; sampled as its SQL benchmarks.
    Dataset("bird_mini", "dev", SQL, 16, "Bird mini-dev", samples=16),
    Dataset("bird_mini_pg", "dev", SQL, 17, "Bird mini-dev, PostgreSQL", samples=16),
    Dataset("spider_syn", "train", SQL, 18),
    Dataset("spider_syn", "dev", SQL, 19, "Spider-Syn", samples=16),
    Dataset("spider_dk", "dev", SQL, 20, "Spider-DK", samples=16),
    Dataset("spider_realistic", "dev", SQL, 21, "Spider-Realistic", samples=16),
    Dataset("spider2_lite", "dev", SQL, 22, "Spider 2.0-Lite, SQLite", samples=16),
)


@dataclass(frozen=True)
class HubFile:
    """A file of a dataset repository on the Hugging Face Hub; `revision` is the commit that is pinned, or a branch."""

    repository: str
    file: str
    revision: str


# What `dph prepare --download` fetches, by the data set's name.
HUB_FILES = {
    "math_dapo": HubFile(
        "BytedTsinghua-SIA/DAPO-Math-17k", "data/dapo-math-17k.parquet", "65877096c24ffa7abc4e4fa5edb95cf3413a5674"
    ),
    "aime24": HubFile(
        "HuggingFaceH4/aime_2024", "data/train-00000-of-00001.parquet", "2fe88a2f1091d5048c0f36abc874fb997b3dd99a"
    ),
    "aime25": HubFile("math-ai/aime25", "test.jsonl", "563bb8404243c5f09de6ec262f2db674fe5bce9b"),
    "amc23": HubFile("math-ai/amc23", "test-00000-of-00001.parquet", "80815d37005feb82cd7f8fbc6901d5d3eff43057"),
    "math500": HubFile("HuggingFaceH4/MATH-500", "test.jsonl", "6e4ed1a2a79af7d8630a6b768ec859cb5af4d3be"),
    "olympiadbench": HubFile(
        "Hothan/OlympiadBench",
        "OlympiadBench/OE_TO_maths_en_COMP/OE_TO_maths_en_COMP.parquet",
        "91184b52131e7fc9455fef848035173aea8cc01a",
    ),
    "minerva_math": HubFile("math-ai/minervamath", "test.jsonl", "ee46ddc498933b1977577953250ca5c66be64f96"),
    # The Hub's own conversion, whose files have the same names in every repository.
    "college_math": HubFile("di-zhang-fdu/College_Math_Test", "default/test/0000.parquet", "refs/convert/parquet"),
    "gsm8k": HubFile("openai/gsm8k", "main/test-00000-of-00001.parquet", "740312add88f781978c0658806c59bc2815b9866"),
}
# By name: what `evaluate.benchmarks` knows, those of a task in the order of the paper's columns.
BENCHMARKS = {dataset.name: dataset for dataset in DATASETS if dataset.samples is not None}
