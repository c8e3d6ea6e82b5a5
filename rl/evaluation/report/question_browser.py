"""The question browser's data: the first responses of every model to the questions of the answer grid, and filters.

page.js shows them. Every text is stored once, in a list, because models repeat themselves.
"""

import json
import re
from functools import lru_cache

import numpy as np
from markupsafe import Markup

from rl.evaluation.analysis.comparison import Comparison
from rl.evaluation.analysis.questions import PLAIN
from rl.evaluation.report.answer_grid import AnswerGrid, shown_methods
from rl.evaluation.spec import BASE
from rl.metrics.bootstrap import SEED

# Limit on the texts of all splits together, so that the page stays below 3 MB. Questions are drawn with a fixed seed
# until it is reached.
MOST_CHARACTERS = 1_400_000
QUESTION_CHARACTERS = 1_500
VERDICTS = {
    "match": "correct",
    "partial": "partly right",
    "mismatch": "wrong",
    "no_answer": "no answer",
    "pred_error": "does not run",
    "pred_timeout": "timed out",
    "gold_error": "reference fails",
    "gold_timeout": "reference fails",
    "gold_empty": "reference returns nothing",
}
ONE_LOST = "Lost or kept, of what the base solved"
_STYLE_COMMENT = re.compile(r"^\s*/\*\w+\*/\s*")


def browser_data(comparison: Comparison, grids: dict[str, AnswerGrid], names: dict[str, str]) -> Markup:
    """JSON for a <script> element: {"splits": [...], "texts": [...]}.

    Args:
        grids: {name of the split to show: its grid}.
        names: {method: name to show}, of the grids' panels.
    """
    texts: dict[str, int] = {}
    splits: list[dict] = []
    for title, grid in grids.items():
        limit = MOST_CHARACTERS * (len(splits) + 1) // len(grids)
        splits.append({"name": title} | _of_split(comparison, grid, names, texts, limit))
    content = json.dumps({"splits": splits, "texts": list(texts)}, ensure_ascii=False, separators=(",", ":"))
    return Markup(content.replace("<", "\\u003c"))


def _of_split(
    comparison: Comparison, grid: AnswerGrid, names: dict[str, str], texts: dict[str, int], limit: int
) -> dict:
    questions = comparison.questions.get(grid.split)
    samples = {name: comparison.samples[name][grid.split] for name in names}
    base = samples[BASE]
    is_sql = base.unparsed is not None

    def number(text: str | None) -> int:
        """The position of a text in the list; SQL is laid out, without the comment that names its style."""
        shown = formatted_sql(text) if is_sql and text else text or "–"
        return texts.setdefault(shown, len(texts))

    def responses(name: str, position: int) -> list[list]:
        of = samples[name]
        kinds, styles = grid.kinds[name][position].tolist(), of.style[position].tolist()
        return [
            [number(response.pred), kinds[i], styles[i], VERDICTS[response.outcome], response.rows]
            for i, response in enumerate(of.responses[position])
        ]

    entries: dict[int, dict] = {}  # by row of the grid
    for row in np.random.default_rng(SEED).permutation(len(grid.order)).tolist():
        if entries and sum(map(len, texts)) > limit:  # every split shows a question
            break
        position = int(grid.order[row])
        text = questions.texts[position] if questions else f"Question {base.ids[position]}"
        cells = [np.sort(grid.kinds[name][position]).tolist() for name in names]
        of_models = [responses(name, position) for name in names]
        entries[row] = {"row": row, "text": text[:QUESTION_CHARACTERS], "cells": cells, "responses": of_models}
        if questions and questions.references[position]:
            entries[row]["reference"] = number(questions.references[position])
    rows = sorted(entries)
    filters = _filters(comparison, grid, names, grid.order[rows])
    return {
        # The page opens with a question that one model lost and another one kept, if there is one; a filter says so.
        "start": next((i for i, found in enumerate(filters) if found["group"] == ONE_LOST), 0),
        "models": list(names.values()),
        "right": list(range(max(len(base.style_names), 1))),
        "styles": list(base.style_names),
        "fills": list(grid.fills.values()),
        "of": grid.of,
        "questions": [entries[row] for row in rows],
        "filters": filters,
    }


def _filters(comparison: Comparison, grid: AnswerGrid, names: dict[str, str], shown: np.ndarray) -> list[dict]:
    """[{"group", "name", "rows": positions in `shown`}], without filters that no question passes."""
    questions, metrics = comparison.questions.get(grid.split), comparison.metrics
    found = [("", "All questions", np.ones(len(shown), dtype=bool))]
    for key, values in questions.groups.items() if questions else ():
        of_shown = np.array(values)[shown]
        title = key.replace("_", " ").capitalize()
        found += [(title, value.replace("_", " "), of_shown == value) for value in sorted(set(of_shown.tolist()))]
    found += _lost_by_one(comparison, grid, names, shown)
    lost = f"Lost (the base solved it in {comparison.spec.solved_in} samples, no sample correct)"
    for title, metric in ((lost, "lost"), ("Newly solved", "newly_solved")):
        for name in (name for name in names if name != BASE):
            found.append((title, f"by {names[name]}", metrics[name][grid.split][metric][shown] > 0))
    return [
        {"group": group, "name": name, "rows": np.flatnonzero(passed).tolist()}
        for group, name, passed in found
        if passed.any()
    ]


def _lost_by_one(
    comparison: Comparison, grid: AnswerGrid, names: dict[str, str], shown: np.ndarray
) -> list[tuple[str, str, np.ndarray]]:
    """Questions that the first shown method lost and the best other one kept, plain ones first, and those both lost."""
    first, *others = [name for name in shown_methods(comparison) if name in names and name != BASE] or [""]
    if not others:
        return []
    metrics = {name: comparison.metrics[name][grid.split] for name in (first, *others)}
    best = max(others, key=lambda name: np.mean(metrics[name][f"pass@{comparison.spec.solved_in}"]))
    lost, lost_too = (metrics[name]["lost"][shown] > 0 for name in (first, best))
    kept = metrics[best]["lost"][shown] == 0
    grouped = comparison.questions[grid.split].few_valued() if grid.split in comparison.questions else {}
    plain = next((values[PLAIN][shown] for values in grouped.values() if PLAIN in values), np.zeros(len(shown), bool))
    return [
        (ONE_LOST, f"{names[first]} lost, {names[best]} kept: plain", lost & kept & plain),
        (ONE_LOST, f"{names[first]} lost, {names[best]} kept", lost & kept),
        (ONE_LOST, f"{names[first]} and {names[best]} lost", lost & lost_too),
    ]


@lru_cache(maxsize=50_000)
def formatted_sql(sql: str) -> str:
    """The query laid out in lines, without the comment that names its style."""
    import sqlparse

    sql = _STYLE_COMMENT.sub("", sql)
    try:
        laid_out = sqlparse.format(sql, reindent=True, indent_width=2).strip()
    except sqlparse.exceptions.SQLParseError:  # nested too deeply
        return sql
    # Only white space may differ. sqlparse and SQLite disagree about backslashes in texts.
    return laid_out if _letters(laid_out) == _letters(sql) else sql


def _letters(text: str) -> str:
    return "".join(text.split())
