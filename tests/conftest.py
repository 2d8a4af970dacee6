"""What all tests share."""

import pytest

pytest.register_assert_rewrite("tests.support")

from tests.support.exploring import register_profiles  # noqa: E402 - rewritten first

register_profiles()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let processes that share the tests by file take files with slow tests first.

    The quick ones fill what is left: else one process ends with minutes of chaos, the others idle.
    """
    if hasattr(config, "workerinput"):
        slow = {item.path for item in items if item.get_closest_marker("slow")}
        items.sort(key=lambda item: item.path not in slow)
