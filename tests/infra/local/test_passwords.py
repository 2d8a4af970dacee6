"""Passwords of a data folder: made once, for their owner's eyes alone."""

import stat

import pytest

from infra.local import passwords
from infra.settings import SettingsError


def test_they_are_made_once_and_only_the_owner_may_read_them(tmp_path):
    made = passwords.of(tmp_path / "new")
    assert set(made) == set(passwords.NAMES)
    assert len(set(made.values())) == len(passwords.NAMES)
    assert passwords.of(tmp_path / "new") == made
    assert passwords.of(tmp_path / "other") != made
    file = tmp_path / "new" / passwords.FILE
    file.chmod(0o644)  # a copy brought back from somewhere
    passwords.of(tmp_path / "new")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_one_that_is_missing_is_added_and_the_others_stay(tmp_path):
    made = passwords.of(tmp_path)
    file = tmp_path / passwords.FILE
    file.write_text(f"REDIS_PASSWORD={made['REDIS_PASSWORD']}\n")
    added = passwords.of(tmp_path)
    assert set(added) == set(passwords.NAMES)
    assert added["REDIS_PASSWORD"] == made["REDIS_PASSWORD"]
    assert passwords.of(tmp_path) == added


def test_what_is_no_password_names_its_line_and_shows_nothing_of_it(tmp_path):
    (tmp_path / passwords.FILE).write_text(
        "REDIS_PASSWORD=" + "a" * 32 + "\nKAFKA_PASSWORD=s3cret!\n"
    )
    with pytest.raises(SettingsError, match="passwords, line 2: NAME=password") as refused:
        passwords.of(tmp_path)
    assert "s3cret" not in str(refused.value)
