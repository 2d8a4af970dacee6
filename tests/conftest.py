"""What all tests share."""

import pytest

pytest.register_assert_rewrite("tests.support")

from tests.support.exploring import register_profiles  # noqa: E402 - rewritten first

register_profiles()
