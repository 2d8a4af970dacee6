"""Examples of whole answers, put together from those of their fields.

A shape names an example beside each field (`Field(examples=[...])`); what many shapes have in
common has it here. So an example always fits its schema, and follows when that changes.
"""

from __future__ import annotations

from typing import Any, Final

from api.http.addresses import EXAMPLE_MINT, EXAMPLE_WALLET

Schema = dict[str, Any]

_SIGNATURE: Final = (
    "4hXTCkRzt9WyecNzV1XPgCDfGAZzQKNxLXgynz5QDuWWPSAZBZSHptvWRL3BjCvzUXRdKvHL2b7yGrRQcWyaqsaB"
)
_SOL: Final = "So11111111111111111111111111111111111111112"
_BY_NAME: Final[dict[str, Any]] = {
    "wallet": EXAMPLE_WALLET,
    "fee_payer": EXAMPLE_WALLET,
    "mint": EXAMPLE_MINT,
    "quote_mint": _SOL,
    "pool_fee_mint": _SOL,
    "pool": "58oQChx4yWmvKdwLLZzBi4ChoCc2fqCUWBkwMihLYQo2",
    "program_id": "675kPX9MHTjS2zt1qfr1NYHuzeLXfQM9H24wFSUt1Mp8",
    "signature": _SIGNATURE,
    "pool_fee_raw": "3750000",
    "reserve_raw": "206900000000000",
    "quote_reserve_raw": "84950000000",
    "liquidity": None,
    "sqrt_price_x64": None,
    "next_cursor": None,
}
_BY_TYPE: Final[dict[str, Any]] = {
    "string": "0",
    "integer": 0,
    "number": 0.0,
    "boolean": False,
    "null": None,
}


def add(document: Schema) -> None:
    """Give each answer of a document an example, unless it has one."""
    schemas = document["components"]["schemas"]
    for operations in document["paths"].values():
        for operation in operations.values():
            for status, answer in operation["responses"].items():
                content = answer.get("content", {}).get("application/json")
                if content is not None and status == "200":
                    content.setdefault("example", example(content["schema"], schemas))
            for parameter in operation.get("parameters", ()):
                if parameter.get("in") == "path" and parameter["name"] in _BY_NAME:
                    parameter.setdefault("example", _BY_NAME[parameter["name"]])


def example(schema: Schema, schemas: Schema, name: str = "") -> Any:
    """Return an example of a schema; `name` is that of the field it is of."""
    if "$ref" in schema:
        return example(schemas[schema["$ref"].rpartition("/")[2]], schemas, name)
    for given in ("examples", "enum"):
        if schema.get(given):
            return schema[given][0]
    if "const" in schema:
        return schema["const"]
    if name in _BY_NAME:
        return _BY_NAME[name]
    for choice in schema.get("anyOf", ()):
        if choice.get("type") != "null":
            return example(choice, schemas, name)
    if "properties" in schema:
        return {field: example(of, schemas, field) for field, of in schema["properties"].items()}
    if schema.get("type") == "array":
        return [example(schema["items"], schemas)]
    return _BY_TYPE.get(schema.get("type", ""))
