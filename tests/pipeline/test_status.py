"""What `soltape status` says of a report."""

import pytest

from pipeline import status


@pytest.mark.parametrize(
    ("slots_per_s", "said"), [(0.0, "has stopped"), (3.2, "is late, and goes on")]
)
def test_an_ingest_that_settles_slots_has_not_stopped(slots_per_s, said, capsys):
    groups = dict.fromkeys([*status.GROUPS, "live"])
    systems = {"redis": {"reachable": True, "about": "Valkey"}}
    ingest = {"slot": 7, "age_s": 400.0, "slots_per_s": slots_per_s}
    report = {"systems": systems, "ingest": ingest, "groups": groups}
    # private `_show`: a chain that is late takes minutes to make
    status._show(report | {"processes": {}, "gaps": 0, "missing": {}})
    assert f"ingest or the chain {said}" in capsys.readouterr().out
