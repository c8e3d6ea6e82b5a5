"""What a request says of SQL: the database, gold as a query or as stored results, and how results are compared."""

from pydantic import BaseModel, Field, NonNegativeInt, ValidationError, model_validator

from rl.scorer.sql.compare import STORED, Comparison


class SqlQuestion(BaseModel):
    """What SQL responses are compared with."""

    db_id: str = Field(
        description="path of the database below database_path, such as shop/shop.sqlite, after the prefix of its engine"
    )
    gold_sql: str = Field(description="the gold query; with cmp_method spider2 JSON of StoredGold")
    cmp_method: Comparison

    @model_validator(mode="after")
    def _reads_stored_results(self) -> "SqlQuestion":
        if self.cmp_method == STORED:
            StoredGold.read(self.gold_sql)
        return self


class StoredResult(BaseModel):
    """A CSV file below database_path, and which of its columns count, from 0; none listed: all."""

    file: str
    columns: list[NonNegativeInt] = []


class StoredGold(BaseModel):
    """Stored results in place of a gold query; a prediction may match any of them."""

    results: list[StoredResult] = Field(min_length=1)
    ignore_order: bool = False

    @classmethod
    def read(cls, text: str) -> "StoredGold":
        """Raises ValueError."""
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"]))
            raise ValueError(f"gold_sql is no JSON of stored results: {where} {first['msg']}".strip()) from None
