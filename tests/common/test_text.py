"""Names of paths, which always differ."""

from pathlib import Path

import pytest

from rl.common.text import shortest_names


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["/o/a", "/o/b"], ["a", "b"]),
        (["/o/x/a", "/o/y/a", "/o/y/b"], ["x_a", "y_a", "y_b"]),
        # Parts are joined by a letter that names may have.
        (["/x/a_b", "/x_a/b", "/y/b"], ["x_a_b_1", "x_a_b_2", "y_b_3"]),
    ],
)
def test_names_are_the_ends_of_the_paths_and_differ(paths, names):
    assert shortest_names([*map(Path, paths)]) == names
