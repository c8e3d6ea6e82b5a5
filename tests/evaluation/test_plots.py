"""The families that are drawn against eta, and running means."""

import numpy as np

from rl.evaluation.report.plots import eta_families, running_mean
from rl.evaluation.spec import read_spec


def test_a_family_needs_two_etas(math_run):
    spec = read_spec(math_run.write())
    both = {"DPH-JS": {0.0: ["dph_js_low"], 0.2: ["dph_js"]}}
    assert eta_families(spec, spec.methods) == both and eta_families(spec, ["base", "dph_js"]) == {}
    math_run.content["methods"]["dph_js_low"]["eta"] = 0.2
    assert eta_families(read_spec(math_run.write()), spec.methods) == {}


def test_a_running_mean_begins_with_the_mean_of_all_so_far():
    np.testing.assert_allclose(running_mean(np.array([1.0, 3, 5, 7]), 2), [1, 2, 4, 6])
