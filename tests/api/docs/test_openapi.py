"""What operations share in the document: error answers, headers, shapes."""

import pytest

from api.app import create_app
from api.docs import groups
from api.docs.openapi import KINDS, open_problems, problems
from api.http import errors
from infra.settings import Settings

JSON = "application/problem+json"


LIMITS = {"RateLimit", "RateLimit-Policy", "x-credits-left"}


@pytest.fixture(scope="module")
def document():
    return create_app(Settings(_env_file=None)).openapi()


def operations(document):
    """Yield each operation with its answers, references followed."""
    shared = document["components"]["responses"]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            answers = {
                status: shared.get(answer.get("$ref", "").rpartition("/")[2], answer)
                for status, answer in operation["responses"].items()
            }
            yield method, path, operation, answers


def codes(answers):
    return {status: set(answer["content"][JSON]["examples"]) for status, answer in answers.items()}


def test_codes_are_unique_and_in_lower_case():
    found = [kind.code for kind in KINDS]
    assert len(found) == len(set(found))
    assert all(code.replace("_", "").islower() for code in found)


def test_a_kind_stands_for_itself_and_a_status_for_all_that_have_it():
    assert codes(problems(errors.UNKNOWN_TOKEN))[404] == {"unknown_token"}
    assert codes(problems(404))[404] == {
        *("not_found", "unknown_token", "no_image", "no_position"),
    }


def test_what_may_happen_to_any_request_need_not_be_named():
    assert {401, 403, 429, 500, 503} <= problems().keys()
    assert 404 not in problems()
    assert open_problems().keys() == {421, 500, 503}
    assert "store_unavailable" not in codes(open_problems())[503]


def test_examples_are_whole_problems():
    for status, answer in problems(404, 422).items():
        for code, example in answer["content"][JSON]["examples"].items():
            value = example["value"]
            assert (value["status"], value["code"]) == (status, code)
            assert value["type"] == f"urn:soltape:problem:{code}"
            assert value["title"] in answer["description"]


def test_what_takes_a_body_documents_one_that_comes_too_slowly(document):
    found = {method for method, *_, answers in operations(document) if "408" in answers}
    assert found == {"post"}
    for method, _, _, answers in operations(document):
        assert method == "get" or set(codes({408: answers["408"]})[408]) == {"request_timed_out"}


def test_admitted_requests_get_what_is_left(document):
    for method, path, operation, answers in operations(document):
        for status, answer in answers.items():
            has_limits = operation.get("security") != [] and status not in ("401", "403", "408")
            named = answer["headers"].keys() & LIMITS
            assert named == (LIMITS if has_limits else set()), (method, path, status)


def test_every_get_but_health_may_be_asked_under_a_condition(document):
    condition = {"$ref": "#/components/parameters/IfNoneMatch"}
    for method, path, operation, answers in operations(document):
        is_kept = method == "get" and not path.startswith("/api/health")
        assert (condition in operation["parameters"]) == is_kept, path
        assert ("304" in answers) == ("ETag" in answers["200"]["headers"]) == is_kept, path


def test_health_documents_its_503(document):
    answer = document["paths"]["/api/health"]["get"]["responses"]["503"]
    assert answer["content"]["application/json"]["schema"]["$ref"].endswith("/Health")
    assert answer["content"]["application/json"]["example"]["status"] == "unavailable"
    assert codes({503: answer}) == {503: {"timed_out", "busy"}}


def test_every_operation_refuses_parameters_that_it_does_not_have(document):
    for _, path, _, answers in operations(document):
        assert "invalid_parameter" in codes({422: answers["422"]})[422], path


def test_shapes_have_names_of_their_own(document):
    assert not [name for name in document["components"]["schemas"] if "__" in name]


def test_paths_are_grouped_by_what_a_user_wants(document):
    tags = [operation["tags"] for _, _, operation, _ in operations(document)]
    assert all(len(each) == 1 for each in tags)
    order = list(dict.fromkeys(name for [name] in tags))
    assert order == [tag["name"] for tag in document["tags"]]  # none is empty, none comes twice


def test_the_guide_names_every_path_that_needs_no_key(document):
    guide = document["info"]["description"]
    named = guide.partition("Without a key only")[2].partition("every other path")[0]
    for path, operations in document["paths"].items():
        if any(operation.get("security") == [] for operation in operations.values()):
            assert f"`{path}`" in named


def test_the_guide_says_what_every_caller_needs(document):
    for heading in ("Keys", "Credits and rate", "Errors", "Pages", "Freshness", "Nulls and gaps"):
        assert f"\n## {heading}\n" in document["info"]["description"]


def test_a_path_of_no_group_is_named():
    with pytest.raises(KeyError, match="/api/odd is in no group"):
        groups.arrange({"paths": {"/api/odd": {"get": {"tags": ["odd"]}}}})


def test_the_history_of_perps_follows_the_slugs_of_their_protocols():
    settings = Settings(_env_file=None, protocols="p08=-,p09=-,p77=jupiter_perps")
    paths = create_app(settings).openapi()["paths"]
    path = "/api/wallets/{wallet}/p77/pnl"
    assert [each for each in paths if each.endswith(("/funding", "/pnl"))] == [path]
    operation = paths[path]["get"]
    links = operation["responses"]["200"]["links"]
    assert links["nextPage"]["operationId"] == operation["operationId"]
    assert "/api/wallets/{wallet}/p77/positions" in paths


def test_every_volume_names_the_trades_that_it_leaves_out(document):
    """Each but those that repeat another one in another unit."""
    found = 0
    for name, shape in document["components"]["schemas"].items():
        for field, schema in shape.get("properties", {}).items():
            about = schema.get("description", "")
            if "volume" in field and "the same in" not in about:
                found += 1
                assert "trades of unknown value are left out" in about, (name, field)
    assert found >= 8
