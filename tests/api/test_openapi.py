"""The error answers that operations share."""

from api import errors
from api.openapi import KINDS, open_problems, problems

JSON = "application/problem+json"


def codes(answers):
    return {status: set(answer["content"][JSON]["examples"]) for status, answer in answers.items()}


def test_codes_are_unique_and_told_in_lower_case():
    found = [kind.code for kind in KINDS]
    assert len(found) == len(set(found))
    assert all(code.replace("_", "").islower() for code in found)


def test_a_kind_stands_for_itself_and_a_status_for_all_that_have_it():
    assert codes(problems(errors.UNKNOWN_TOKEN))[404] == {"unknown_token"}
    assert codes(problems(404))[404] == {"not_found", "unknown_token", "no_position"}


def test_what_may_happen_to_any_request_need_not_be_named():
    assert {401, 403, 429, 500, 503} <= problems().keys()
    assert 404 not in problems()
    assert open_problems().keys() == {500, 503}
    assert "store_unavailable" not in codes(open_problems())[503]


def test_examples_are_whole_problems():
    for status, answer in problems(404, 422).items():
        for code, example in answer["content"][JSON]["examples"].items():
            value = example["value"]
            assert (value["status"], value["code"]) == (status, code)
            assert value["type"] == f"urn:soltape:problem:{code}"
            assert value["title"] in answer["description"]
