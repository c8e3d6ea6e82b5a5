"""The task of tests/resume, in which these runs are started."""

from tests.resume.conftest import place  # noqa: F401
