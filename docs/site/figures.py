"""Figures of the explanation pages, computed and drawn when the site is built. Each function returns inline SVG."""

import io
import re

import matplotlib

matplotlib.use("svg")
import numpy as np  # noqa: E402
from matplotlib import pyplot as plt  # noqa: E402
from matplotlib.axes import Axes  # noqa: E402

BLUE, ORANGE, GREY = "#3b7dd8", "#d9731a", "#888888"
X = np.linspace(-8, 8, 1601)


def _normal(mean: float, deviation: float) -> np.ndarray:
    return np.exp(-((X - mean) ** 2) / (2 * deviation**2)) / (deviation * np.sqrt(2 * np.pi))


def closest_normals() -> dict[str, tuple[float, float]]:
    """Mean and standard deviation of the normal distribution q closest to p (below), by each KL divergence.

    p has three modes of different weight. KL(p||q) is least at p's own mean and deviation; KL(q||p) is searched on a
    grid of means and deviations.
    """
    p = reference_density()
    width = X[1] - X[0]
    mean = float((X * p).sum() * width)
    deviation = float(np.sqrt(((X - mean) ** 2 * p).sum() * width))
    grid = [(m, s) for m in np.arange(-5, 5.05, 0.1) for s in np.arange(0.3, 4.0, 0.05)]
    reverse = min(grid, key=lambda pair: _kl(_normal(*pair), p))
    return {"forward": (mean, deviation), "reverse": (float(reverse[0]), float(reverse[1]))}


def reference_density() -> np.ndarray:
    return 0.5 * _normal(-3, 0.6) + 0.3 * _normal(0.5, 0.6) + 0.2 * _normal(3.5, 0.6)


def _kl(q: np.ndarray, p: np.ndarray) -> float:
    held = q > 1e-12
    return float((q[held] * np.log(q[held] / np.maximum(p[held], 1e-300))).sum() * (X[1] - X[0]))


def two_divergences() -> str:
    """The normal distributions closest to one with three modes, by the forward and by the reverse KL."""
    figure, axes = plt.subplots(2, 1, figsize=(6, 4.2), sharex=True)
    p, found = reference_density(), closest_normals()
    titles = {"forward": "Forward KL(p‖q): q covers every mode", "reverse": "Reverse KL(q‖p): q picks one mode"}
    for axis, (kind, title), colour in zip(axes, titles.items(), (BLUE, ORANGE), strict=True):
        axis.fill_between(X, p, color=GREY, alpha=0.35, linewidth=0)
        axis.plot(X, _normal(*found[kind]), color=colour, linewidth=2)
        axis.set_title(title, fontsize=10, loc="left")
        _bare(axis)
    axes[0].annotate("p, the initial policy", (-3.6, 0.3), fontsize=9, ha="right")
    return _svg(figure, "Two panels: a broad curve over three humps, and a narrow curve on the largest hump.")


def pulls() -> str:
    """By how much each divergence raises the log-probability of a token, against u, per sample of pi_ref."""
    figure, axis = plt.subplots(figsize=(6, 3.2))
    d = np.linspace(-4, 1, 400)
    u = np.exp(d)
    curves = {
        "forward KL (k1)": np.ones_like(u),
        "2 JSD": u * np.log1p(np.exp(-d)) - u * np.log(2),
        "alpha 0.2": (u**0.8 - u) / 0.2,
        "Hellinger": (np.sqrt(u) - u) / 2,
        "reverse KL": -u * d,
    }
    for name, pull in curves.items():
        axis.plot(d, pull, label=name, linewidth=1.8)
    axis.axhline(0, color=GREY, linewidth=0.8)
    axis.axvline(0, color=GREY, linewidth=0.8)
    axis.set_xlabel("d = log pi_theta − log pi_ref of a stored token", fontsize=9)
    axis.set_ylabel("pull towards pi_ref", fontsize=9)
    axis.set_ylim(-1.2, 1.2)
    axis.legend(fontsize=8, frameon=False, loc="lower left")
    _bare(axis)
    return _svg(figure, "Curves of the pull of five divergences against the log-ratio of a token.")


def _bare(axis: Axes) -> None:
    axis.spines[["top", "right"]].set_visible(False)
    axis.tick_params(labelsize=8)


def _svg(figure: plt.Figure, label: str) -> str:
    """Inline SVG with the page's text colour, so that it can be read in light and dark."""
    text = io.StringIO()
    with plt.rc_context({"svg.fonttype": "none", "svg.hashsalt": label}):
        figure.savefig(text, format="svg", transparent=True, bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"(fill|stroke): ?#000000", r"\1: currentColor", svg)
    svg = re.sub(r'<text style="', '<text style="fill: currentColor; ', svg)
    svg = re.sub(
        r'width="[\d.]+pt" height="[\d.]+pt"', f'role="img" aria-label="{label}" style="max-width: 40rem"', svg
    )
    return re.sub(r"\s*\n\s*", "\n", svg)
