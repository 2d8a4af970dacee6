"""Which platform a swap's token is of."""

import pytest

from pipeline.domain.launchpad import Launchpad


@pytest.mark.parametrize(
    ("creations", "migrations", "named", "platform"),
    [
        ([], [], "", ""),
        ([], [], "letsbonk", "letsbonk"),
        (["pump-fun"], [], "", "pump-fun"),
        (["bags"], [], "meteora-dbc", "bags"),  # only the creation shows the creator
        ([], ["pump-fun"], "", "pump-fun"),
        ([], ["raydium-launchlab"], "letsbonk", "letsbonk"),
        (["letsbonk"], ["raydium-launchlab"], "", "letsbonk"),
        (["", "bags", "other"], ["", "meteora-dbc"], "", "bags"),
        ([""], ["", "meteora-dbc", "other"], "", "meteora-dbc"),
    ],
)
def test_a_creation_says_most_then_the_swap_then_a_migration(
    creations, migrations, named, platform
):
    known = Launchpad()
    for each in creations:
        known = known.with_creation(each)
    for each in migrations:
        known = known.with_migration(each)
    assert known.of_swap(named) == platform
