"""Installs `verl.dph` beside upstream's verl (our `verl/` has no __init__.py) and the scorer, `rl.scorer`."""

from setuptools import find_namespace_packages, setup

setup(
    packages=find_namespace_packages(include=["verl.*", "rl", "rl.*"]),
    package_data={
        "verl.dph": ["config/**/*.yaml"],
        "rl.common": ["*.json"],
        "rl.evaluation.report": ["*.html", "*.css", "*.js", "*.svg"],
        "rl.evaluation.paper": ["*.json"],
        "rl.scorer": ["*.yaml"],
    },
)
