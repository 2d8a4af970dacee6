"""How many examples hypothesis tries of a property, and which.

Profile `gate`, the default, tries the same ones in every run: a gate must not fail by chance, and
so many show no more of what it saw before. Profile `fast` (`make test-fast`) tries a fifth of them.
Profile `fuzz` (`make fuzz`) tries new ones: two hundred times as many, fewer of what is slow, so
that all of it takes some forty minutes of two cores.
"""

from __future__ import annotations

from typing import Final

from hypothesis import HealthCheck, settings

_EXAMPLES: Final = 100
_FUZZ_FACTOR: Final = 100
SLOW: Final = 20
"""The `fuzz_factor` of a property that takes a second of CPU or more at the gate."""
# A busy machine is slow, which says nothing about a property.
_SLOW: Final = (HealthCheck.too_slow,)


def register_profiles() -> None:
    """Register them; pytest's option --hypothesis-profile chooses."""
    settings.register_profile(
        "gate",
        derandomize=True,
        max_examples=_EXAMPLES // 2,
        deadline=None,
        suppress_health_check=_SLOW,
    )
    settings.register_profile("fast", settings.get_profile("gate"), max_examples=_EXAMPLES // 10)
    settings.register_profile(
        "fuzz",
        max_examples=_FUZZ_FACTOR * _EXAMPLES,
        deadline=None,
        suppress_health_check=_SLOW,
        print_blob=True,
    )
    settings.load_profile("gate")


def examples(in_gate: int = _EXAMPLES, fuzz_factor: int = _FUZZ_FACTOR) -> settings:
    """Return settings for a property that needs another number of examples than most.

    `fuzz_factor` says how many times those of the gate profile `fuzz` tries.
    """
    most = min(settings().max_examples, fuzz_factor * _EXAMPLES)
    return settings(max_examples=max(1, in_gate * most // _EXAMPLES))
