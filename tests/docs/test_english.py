"""What `make lint` reads as prose, at its own line."""

from tests.docs.conftest import site_module

english = site_module("english")


def test_only_prose_is_read_and_keeps_its_place():
    page = "Text.\n\n```bash\nrm that of\n```\nA `that of` in [a link](that-of.md), <b title='that of'>that of</b>.\n"
    prose = english.markdown_prose(page)
    assert prose.count("that of") == 1 and len(prose) == len(page)
    assert prose[: prose.index("that of")].count("\n") == 5

    module = 'that_of = 1\n# a comment\nvalue = f(x, "a message\\nof words")  # and\n"""A docstring.\n\nTwo."""\n'
    lines = english.python_prose(module).split("\n")
    assert [line.split() for line in lines] == [
        [], ["a", "comment"], ["a", "message", "of", "words", "and"], ["A", "docstring."], [], ["Two."], []
    ]  # fmt: skip

    assert english.comment_prose("set -e\nrun x # why\n# what\n").split() == ["why", "what"]
