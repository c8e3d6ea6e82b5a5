"""Labels hide neither each other nor marks."""

from itertools import combinations

import pytest

from rl.evaluation.report.labels import Box, Mark, overlaps, place

FRAME = Box(0, 0, 300, 200)


def test_labels_stay_in_the_frame_and_apart():
    marks = [Mark(x, y, 5, [f"m {x}"]) for x in (10, 100, 120, 280) for y in (10, 100, 190)]
    labels = place(marks, FRAME, 12)
    assert [label.text for label in labels] == [mark.texts[0] for mark in marks]
    boxes = [label.box for label in labels] + [mark.box for mark in marks]
    assert not any(overlaps([one], [other]) for one, other in combinations(boxes, 2))
    assert all(box.left >= 0 and box.top >= 0 and box.right <= 300 and box.bottom <= 200 for box in boxes[:12])


def test_a_label_that_does_not_fit_becomes_the_next_text():
    alone, crowded = Mark(150, 20, 5, ["a name", "1"]), Mark(150, 21, 5, ["a name that is much too long" * 2, "2"])
    found = place([alone, crowded], FRAME, 12)
    assert [label.text for label in found] == ["a name", "2"]


def test_a_label_next_to_its_mark_has_no_line_and_a_moved_one_has_one_from_the_marks_edge():
    assert place([Mark(150, 100, 5, ["m"])], FRAME, 12)[0].line is None
    blocked = [Mark(150, 100, 5, ["m"])] + [Mark(150 + x, 100 + y, 8, ["o"]) for x in (-20, 0, 20) for y in (-20, 20)]
    blocked += [Mark(130, 100, 8, ["o"]), Mark(170, 100, 8, ["o"])]
    x0, y0, x1, y1 = place(blocked, FRAME, 12)[0].line
    assert (x0 - 150) ** 2 + (y0 - 100) ** 2 == pytest.approx(25) and max(abs(x1 - 150), abs(y1 - 100)) > 9


def test_faint_things_are_avoided_if_they_can_be():
    seeds = [Box(159, 92, 170, 108)]
    for avoided, hides in (((), True), (seeds, False)):
        (label,) = place([Mark(150, 100, 5, ["m"])], FRAME, 12, avoided)
        assert bool(overlaps([label.box], seeds)) == hides
