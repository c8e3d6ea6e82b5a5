"""Markdown extension of the documentation's site (zensical.toml): generated blocks, and formulas as MathML.

A line `<!-- generate: NAME -->` becomes what GENERATORS[NAME] returns. $...$ and a fenced block of `math` become
MathML, which browsers show without scripts or fonts from elsewhere.
"""

import re
from functools import partial
from typing import Any
from xml.etree.ElementTree import Element

import figures
import reference
from latex2mathml.converter import convert
from markdown import Markdown
from markdown.extensions import Extension
from markdown.inlinepatterns import InlineProcessor
from markdown.preprocessors import Preprocessor

GENERATORS = {
    "commands": reference.commands,
    "settings of training": partial(reference.settings, "dph_trainer"),
    "settings of pre-sampling": partial(reference.settings, "presample"),
    "settings of the evaluation": partial(reference.settings, "evaluate"),
    "benchmarks": reference.benchmarks,
    "data sources": reference.data_sources,
    "measures": reference.measures,
    "training metrics": reference.training_metrics,
    "settings of the scorer": reference.scorer_settings,
    "reward models": reference.reward_models,
    "guesses": reference.guesses,
    "engines": reference.engines,
    "environment variables": reference.environment_variables,
    "methods of the paper": partial(reference.methods_of, "paper"),
    "methods beyond the paper": partial(reference.methods_of, "extension"),
    "methods of others": partial(reference.methods_of, "baseline"),
    "the paper's table 1": partial(reference.paper_table, "1"),
    "the paper's table 2": partial(reference.paper_table, "2"),
    "the paper's table 3": partial(reference.paper_table, "3", trained=False),
    "the paper's table 4": partial(reference.paper_table, "4"),
    "the paper's table 8": partial(reference.paper_table, "8", trained=False),
    "figure: two divergences": figures.two_divergences,
    "figure: pulls": figures.pulls,
}
_GENERATED = re.compile(r"<!-- generate: (.+) -->")
# Not in code, which is taken before; the dollars touch the formula, as on GitHub.
_INLINE = r"(?<![\\$\w])\$(?=\S)([^$\n]+?)(?<=\S)\$(?![\w$])"


class _Generate(Preprocessor):
    """Replace the line of a generated block. An unknown name raises KeyError and fails the build."""

    def run(self, lines: list[str]) -> list[str]:
        shown: list[str] = []
        for line in lines:
            if found := _GENERATED.fullmatch(line):
                made = GENERATORS[found[1]]()
                shown += [self.md.htmlStash.store(made)] if made.startswith("<") else made.splitlines()
            else:
                shown.append(line)
        return shown


class _Formula(InlineProcessor):
    def handleMatch(self, m: re.Match, data: str) -> tuple[str | Element, int, int]:  # type: ignore[override]
        return self.md.htmlStash.store(_mathml(m[1])), m.start(0), m.end(0)


def _mathml(source: str, display: str = "inline") -> str:
    """latex2mathml leaves no space between a function and its argument, and raises the prime, which fonts raise too."""
    made = convert(re.sub(r"\\log(?=\s*[\\\w])", r"\\log\\,", source), display=display)
    prime = r"<msup>((?:(?!</?msup>).)*)<mi>(&#x02032;)</mi></msup>"
    return re.sub(prime, r'\1<mo lspace="0" rspace="0">\2</mo>', made)


def display_formula(source: str, *_: Any, **__: Any) -> str:
    """A fenced block of `math`, for pymdownx.superfences."""
    return f'<div class="formula">{_mathml(source, display="block")}</div>'


class _Extension(Extension):
    def extendMarkdown(self, md: Markdown) -> None:
        # After white space is cleaned up (30), before fenced blocks (25); after code (190), before escapes (180).
        md.preprocessors.register(_Generate(md), "dph_generate", 28)
        md.inlinePatterns.register(_Formula(_INLINE, md), "dph_formula", 185)


def makeExtension(**settings: Any) -> Extension:  # noqa: N802  # the name that Markdown looks for
    return _Extension(**settings)
