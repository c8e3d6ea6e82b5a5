"""The data sets of the paper, and others for its tasks. No other file lists them.

`dph prepare`, the scorer's data sources, the evaluation's benchmarks and tables in the documentation derive from them.
"""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import ClassVar

SQL, MATH = "sql", "math"


@dataclass(frozen=True)
class HubFile:
    """A file of a dataset repository on the Hugging Face Hub; `revision` is a pinned commit or a branch."""

    repository: str
    file: str
    revision: str


@dataclass(frozen=True)
class Dataset:
    """A data set that `dph prepare` writes.

    Attributes:
        kind: SQL or MATH.
        name: its name, which is also the data_source of its rows.
        id_blocks: a row's id is id_blocks[split] * 10,000,000 + the record's number. Prepared files have these ids, so
            add new numbers and change none (18 to 22 are taken). 214 blocks fit into 31 bits.
        label: the paper's name for a benchmark.
        samples: responses per prompt in the evaluation; None if `evaluate.benchmarks` does not offer it.
        data_sources: patterns of the data_source of rows with the same kind of answer; (): the name alone.
    """

    kind: ClassVar[str]

    name: str
    id_blocks: Mapping[str, int]
    label: str = ""
    samples: int | None = None
    _: KW_ONLY
    data_sources: tuple[str, ...] = ()

    @property
    def file(self) -> str:
        """The file, relative to the data folder, to which `dph prepare` writes the split that is evaluated."""
        return f"sql/{self.name}_dev.parquet" if self.kind == SQL else f"math/{self.name}.parquet"


@dataclass(frozen=True, kw_only=True)
class SqlDataset(Dataset):
    """Questions with gold queries, and SQLite databases.

    Attributes:
        home: the data set's web address.
        published: the published files that are needed, without the databases.
        program: its program of `dph prepare`.
        variant: its name for the program's --variant; "": the program's default data set.
        query: the key of a record's gold query; the question's key is "question".
        cmp_method: how the scorer compares results.
        engine: the queries' engine; if it is not SQLite, the SQLite files only show the schema.
    """

    kind = SQL

    home: str
    published: str
    program: str
    variant: str = ""
    query: str
    cmp_method: str
    engine: str = "SQLite"

    @property
    def on_sqlite(self) -> bool:
        return self.engine == "SQLite"


@dataclass(frozen=True, kw_only=True)
class MathDataset(Dataset):
    """Problems with answers.

    Attributes:
        hub: the repository, file and commit or branch on the Hugging Face Hub that `--download` fetches.
        reader: the key in READERS (rl/data/prepare/math.py) of the function that reads a record.
        aliases: other names of its folder or file.
    """

    kind = MATH

    hub: HubFile
    reader: str = "answer"
    aliases: tuple[str, ...] = ()


_bird = partial(SqlDataset, program="bird", query="SQL", cmp_method="bird", samples=16)
_mini_dev = partial(_bird, home="https://github.com/bird-bench/mini_dev", data_sources=("bird_mini*",))

# These are in the order of the paper's columns. The paper has no SQL variants.
# fmt: off
_ALL: tuple[Dataset, ...] = (
    _bird("bird", {"train": 1, "dev": 2, "test": 3}, "Bird",
          home="https://bird-bench.github.io/", published="train.json, dev.json"),
    SqlDataset("spider", {"train": 4, "dev": 5, "test": 6}, "Spider", 16, home="https://yale-lily.github.io/spider",
               published="train_spider.json, train_others.json, dev.json, tables.json", program="spider", query="query",
               cmp_method="spider", data_sources=("spider", "spider_*")),
    MathDataset("math_dapo", {"train": 7}, data_sources=("math_dapo*",),
                hub=HubFile("BytedTsinghua-SIA/DAPO-Math-17k", "data/dapo-math-17k.parquet",
                            "65877096c24ffa7abc4e4fa5edb95cf3413a5674")),
    MathDataset("aime24", {"test": 8}, "AIME24", 64, aliases=("aime2024", "aime_2024"), data_sources=("aime*",),
                hub=HubFile("HuggingFaceH4/aime_2024", "data/train-00000-of-00001.parquet",
                            "2fe88a2f1091d5048c0f36abc874fb997b3dd99a")),
    MathDataset("aime25", {"test": 9}, "AIME25", 64, aliases=("aime2025", "aime_2025"), data_sources=("aime*",),
                hub=HubFile("math-ai/aime25", "test.jsonl", "563bb8404243c5f09de6ec262f2db674fe5bce9b")),
    MathDataset("amc23", {"test": 10}, "AMC23", 16, aliases=("amc2023", "amc_2023"), data_sources=("amc*",),
                hub=HubFile("math-ai/amc23", "test-00000-of-00001.parquet",
                            "80815d37005feb82cd7f8fbc6901d5d3eff43057")),
    MathDataset("math500", {"test": 11}, "Math500", 8, aliases=("math-500", "math_500"),
                data_sources=("math500", "math-500", "math_500"),
                hub=HubFile("HuggingFaceH4/MATH-500", "test.jsonl", "6e4ed1a2a79af7d8630a6b768ec859cb5af4d3be")),
    MathDataset("olympiadbench", {"test": 12}, "Olympiad", 8, aliases=("olympiad_bench", "olympiad"),
                data_sources=("olympiadbench*",), reader="final_answer",
                hub=HubFile("Hothan/OlympiadBench", "OlympiadBench/OE_TO_maths_en_COMP/OE_TO_maths_en_COMP.parquet",
                            "91184b52131e7fc9455fef848035173aea8cc01a")),
    MathDataset("minerva_math", {"test": 13}, "Minerva", 8, aliases=("minerva",), data_sources=("minerva*",),
                reader="solution",
                hub=HubFile("math-ai/minervamath", "test.jsonl", "ee46ddc498933b1977577953250ca5c66be64f96")),
    # The Hub converts these itself; the files have the same names in every repository.
    MathDataset("college_math", {"test": 14}, "College Math", 8, aliases=("collegemath",),
                data_sources=("college_math*",),
                hub=HubFile("di-zhang-fdu/College_Math_Test", "default/test/0000.parquet", "refs/convert/parquet")),
    MathDataset("gsm8k", {"test": 15}, data_sources=("gsm8k*",), reader="####",
                hub=HubFile("openai/gsm8k", "main/test-00000-of-00001.parquet",
                            "740312add88f781978c0658806c59bc2815b9866")),
    _mini_dev("bird_mini", {"dev": 16}, "Bird mini-dev", published="mini_dev_sqlite.json", variant="mini"),
    _mini_dev("bird_mini_pg", {"dev": 17}, "Bird mini-dev, PostgreSQL", published="mini_dev_postgresql.json",
              variant="mini_pg", engine="PostgreSQL"),
)
# fmt: on
DATASETS: dict[str, Dataset] = {dataset.name: dataset for dataset in _ALL}
SQL_DATASETS = {dataset.name: dataset for dataset in _ALL if isinstance(dataset, SqlDataset)}
MATH_DATASETS = {dataset.name: dataset for dataset in _ALL if isinstance(dataset, MathDataset)}
MATH_TESTS = {name: dataset for name, dataset in MATH_DATASETS.items() if "test" in dataset.id_blocks}
# The data sets that `evaluate.benchmarks` offers.
BENCHMARKS = {name: dataset for name, dataset in DATASETS.items() if dataset.samples is not None}


def _patterns(kind: str, general: tuple[str, ...]) -> tuple[str, ...]:
    own = [pattern for data in _ALL if data.kind == kind for pattern in data.data_sources or (data.name,)]
    return tuple(dict.fromkeys([*general, *own]))


# The patterns of the rows' data_source, by kind of answer.
DATA_SOURCES = {SQL: _patterns(SQL, ("sql",)), MATH: _patterns(MATH, ("math", "math-lighteval"))}
