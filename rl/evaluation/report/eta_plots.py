"""eta, the coefficient of the divergence, against what the policy reaches: a line a family of methods (Figure 3)."""

from dataclasses import dataclass
from itertools import chain

from matplotlib.figure import Figure

from rl.evaluation.report.plots import label_line_ends, limit_to_percent, line_panel
from rl.evaluation.report.theme import LONGEST_NAME_AT_LINE, Look, letter
from rl.evaluation.spec import BASE_AGAIN, ReportSpec
from rl.metrics.bootstrap import Interval

# Families stand beside each other at the same eta, so that their intervals do not cover each other.
BESIDE = 0.07


@dataclass(frozen=True)
class EtaCurves:
    """Which methods make a line, and which stand for comparison."""

    families: dict[str, dict[float, list[str]]]  # {family: {eta, ascending: methods}}, each with two etas or more
    references: list[str]  # methods without an eta: horizontal lines

    @staticmethod
    def of(spec: ReportSpec) -> "EtaCurves":
        found: dict[str, dict[float, list[str]]] = {}
        for name, method in spec.methods.items():
            if method.family is not None:
                found.setdefault(method.family, {}).setdefault(float(method.eta), []).append(name)
        families = {family: dict(sorted(etas.items())) for family, etas in found.items() if len(etas) > 1}
        references = [n for n, method in spec.methods.items() if method.family is None and n != BASE_AGAIN]
        return EtaCurves(families, references)

    def looks(self, looks: dict[str, Look]) -> dict[str, Look]:
        """Of the references and the families; a family looks like its first method, its letter follows the methods'."""
        named = all(look.tag == look.label for look in looks.values())
        found = {name: looks[name] for name in self.references}
        for i, (family, etas) in enumerate(self.families.items()):
            first = next(look for name, look in looks.items() if name in chain.from_iterable(etas.values()))
            tag = family if named and len(family) <= LONGEST_NAME_AT_LINE else letter(len(looks) + i)
            found[_key(family)] = Look(family, tag, first.colour, first.marker)
        return found


def eta_plot(curves: EtaCurves, values: dict[str, Interval], looks: dict[str, Look]) -> Figure:
    """A share in per cent against eta; lines go through the mean of the runs with equal eta.

    The etas stand at equal distances, whatever their ratios: they are few, span decades, and 0 may be one of them.

    Args:
        curves: the lines.
        values: {method: [value, low, high]}.
        looks: what curves.looks gives.
    """
    etas = sorted(set(chain.from_iterable(curves.families.values())))
    ends = {name: 100 * values[name][0] for name in curves.references}
    ends |= {_key(family): _mean(values, list(of.values())[-1]) for family, of in curves.families.items()}
    texts = {name: f"{looks[name].tag} {end:.1f}" for name, end in ends.items()}
    figure, axes, height = line_panel(texts, xlabel="eta (at equal distances)")
    for name in curves.references:
        axes.axhline(ends[name], color=looks[name].colour.stand_in, linewidth=1.3, linestyle=(0, (4, 3)))
    for i, (family, of) in enumerate(curves.families.items()):
        look, shift = looks[_key(family)], BESIDE * (i - (len(curves.families) - 1) / 2)
        at = [etas.index(eta) + shift for eta in of]
        means = [_mean(values, names) for names in of.values()]
        colour = look.colour.stand_in
        axes.plot(at, means, color=colour, linewidth=1.8)
        for x, names in zip(at, of.values(), strict=True):
            for name in names:
                value, low, high = (100 * v for v in values[name])
                axes.plot([x, x], [low, high], color=colour, linewidth=1.2)
                axes.plot([x], [value], color=colour, marker=look.marker, markersize=5)
    axes.set_xticks(range(len(etas)), [f"{eta:g}" for eta in etas])
    axes.margins(x=0.08)
    limit_to_percent(axes)
    label_line_ends(axes, ends, texts, looks, height)
    return figure


def _key(family: str) -> str:
    """A family may be called like a method."""
    return f"family:{family}"


def _mean(values: dict[str, Interval], names: list[str]) -> float:
    return 100 * sum(values[name][0] for name in names) / len(names)
