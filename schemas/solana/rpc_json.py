"""Transactions between RPC's JSON (`getTransaction`, `getBlock`) and Yellowstone's protobuf.

Reading accepts encodings json, base64 and base58, legacy and versioned transactions, fields
that are missing or null, and fields it does not know. Writing gives what Agave's RPC gives.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from solders.pubkey import Pubkey

from schemas.proto.geyser_pb2 import SubscribeUpdateTransactionInfo
from schemas.proto.solana_storage_pb2 import (
    CompiledInstruction,
    InnerInstruction,
    InnerInstructions,
    Reward,
    RewardType,
    TokenBalance,
    Transaction,
    TransactionStatusMeta,
)
from schemas.proto.solana_storage_pb2 import Message as WireMessage
from schemas.solana import base58, transaction_error
from schemas.solana.json_fields import (
    kind,
    read_base58,
    read_byte,
    read_bytes,
    read_integer,
    read_integers,
    read_list,
    read_object,
    read_pair_of_text,
    read_text,
    read_texts,
)
from schemas.solana.transaction_wire import transaction_from_wire, transaction_to_wire

VOTE_PROGRAM: Final = bytes(Pubkey.from_string("Vote111111111111111111111111111111111111111"))

Encoding = Literal["json", "base64", "base58"]

_ANY_LENGTH: Final = 0
_OUTER_STACK_HEIGHT: Final = 1  # older validators answered null


@dataclass(frozen=True, slots=True)
class RpcTransaction:
    """A `getTransaction` answer: the transaction, and the block it came in."""

    info: SubscribeUpdateTransactionInfo
    slot: int | None  # null in answers that were kept by other tools
    block_time: int | None  # seconds since the Unix epoch; RPC may not know it


def transaction_from_json(answer: Mapping[str, Any]) -> RpcTransaction:
    """Read a `getTransaction` answer, with or without its JSON-RPC envelope.

    Raises ValueError; the text names the field and what is wrong with it.
    """
    answer = _without_envelope(answer)
    slot, block_time = answer.get("slot"), answer.get("blockTime")
    return RpcTransaction(
        info=transaction_info_from_json(answer),
        slot=None if slot is None else read_integer(slot, "slot"),
        block_time=None
        if block_time is None
        else read_integer(block_time, "blockTime", signed=True),
    )


def transaction_info_from_json(
    answer: Mapping[str, Any], index: int | None = None
) -> SubscribeUpdateTransactionInfo:
    """Read the transaction of a `getTransaction` answer, or one entry of a block's `transactions`.

    `index` is its position in the block; without it the answer's `transactionIndex` or 0.
    Raises ValueError; the text names the field and what is wrong with it.
    """
    answer = _without_envelope(answer)
    if "transaction" not in answer:
        raise ValueError("transaction: missing")
    transaction = _transaction(answer["transaction"], answer.get("version"))
    if not transaction.signatures:
        raise ValueError("transaction.signatures: empty")
    if index is None:
        index = read_integer(answer.get("transactionIndex") or 0, "transactionIndex")
    return SubscribeUpdateTransactionInfo(
        signature=transaction.signatures[0],
        is_vote=_is_simple_vote(transaction),
        transaction=transaction,
        meta=_meta(answer.get("meta")),
        index=index,
    )


def transaction_to_json(
    info: SubscribeUpdateTransactionInfo,
    encoding: Encoding = "json",
) -> dict[str, Any]:
    """Return `transaction`, `meta` and `version` as RPC answers them."""
    message = info.transaction.message
    transaction: Any
    if encoding == "json":
        transaction = _transaction_to_json(info.transaction)
    else:
        wire = transaction_to_wire(info.transaction)
        text = base58.encode(wire) if encoding == "base58" else base64.b64encode(wire).decode()
        transaction = [text, encoding]
    version: int | str = "legacy"
    if message.versioned:
        version = 1 if message.HasField("config") else 0
    return {
        "transaction": transaction,
        "meta": _meta_to_json(info.meta),
        "version": version,
    }


def _without_envelope(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(answer, Mapping):
        raise ValueError(f"an object is expected, not {kind(answer)}")
    if "transaction" in answer or not answer.keys() & {"result", "error"}:
        return answer
    if error := answer.get("error"):
        raise ValueError(f"error: the RPC answered {error}")
    return read_object(answer.get("result"), "result")


# From JSON: the transaction.


def _transaction(value: Any, version: Any) -> Transaction:
    if version not in (None, "legacy", 0, 1) or isinstance(version, bool):
        raise ValueError(f"version: {version!r} is not legacy, 0 or 1")
    if isinstance(value, Mapping):
        return _transaction_from_object(value, version)
    if isinstance(value, str):  # RPC's oldest form: bare base58
        value = [value, "base58"]
    text, encoding = read_pair_of_text(value, "transaction")
    try:
        if encoding == "base64":
            wire = base64.b64decode(text, validate=True)
        elif encoding == "base58":
            wire = base58.decode(text)
        else:
            raise ValueError(f"encoding {encoding!r} is not json, base64 or base58")
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"transaction: {error}") from None
    return transaction_from_wire(wire)


def _transaction_from_object(value: Mapping[str, Any], version: Any) -> Transaction:
    path = "transaction.message"
    message = read_object(value.get("message"), path)
    header = read_object(message.get("header", {}), f"{path}.header")
    lookups = read_list(message.get("addressTableLookups"), f"{path}.addressTableLookups")
    versioned = version in (0, 1) if version is not None else "addressTableLookups" in message
    out = Transaction(
        signatures=[
            read_base58(signature, f"transaction.signatures[{i}]", 64)
            for i, signature in enumerate(
                read_list(value.get("signatures"), "transaction.signatures")
            )
        ],
        message=WireMessage(
            account_keys=[
                read_base58(key, f"{path}.accountKeys[{i}]", 32)
                for i, key in enumerate(
                    read_list(message.get("accountKeys"), f"{path}.accountKeys")
                )
            ],
            versioned=versioned,
            instructions=[
                _instruction(item, f"{path}.instructions[{i}]")
                for i, item in enumerate(
                    read_list(message.get("instructions"), f"{path}.instructions")
                )
            ],
        ),
    )
    if not out.message.account_keys:
        raise ValueError(f"{path}.accountKeys: empty")
    if (blockhash := message.get("recentBlockhash")) is not None:
        out.message.recent_blockhash = read_base58(blockhash, f"{path}.recentBlockhash", 32)
    for name, number in (
        ("num_required_signatures", header.get("numRequiredSignatures")),
        ("num_readonly_signed_accounts", header.get("numReadonlySignedAccounts")),
        ("num_readonly_unsigned_accounts", header.get("numReadonlyUnsignedAccounts")),
    ):
        setattr(out.message.header, name, read_byte(number or 0, f"{path}.header.{name}"))
    for i, item in enumerate(lookups):
        where = f"{path}.addressTableLookups[{i}]"
        lookup = read_object(item, where)
        out.message.address_table_lookups.add(
            account_key=read_base58(lookup.get("accountKey"), f"{where}.accountKey", 32),
            writable_indexes=read_bytes(lookup.get("writableIndexes"), f"{where}.writableIndexes"),
            readonly_indexes=read_bytes(lookup.get("readonlyIndexes"), f"{where}.readonlyIndexes"),
        )
    return out


def _instruction(value: Any, path: str) -> CompiledInstruction:
    item = read_object(value, path)
    return CompiledInstruction(**_instruction_fields(item, path))


def _instruction_fields(item: Mapping[str, Any], path: str) -> dict[str, Any]:
    if "programIdIndex" not in item:
        hint = " (encoding jsonParsed is not read)" if "programId" in item else ""
        raise ValueError(f"{path}.programIdIndex: missing{hint}")
    return {
        "program_id_index": read_byte(item["programIdIndex"], f"{path}.programIdIndex"),
        "accounts": read_bytes(item.get("accounts"), f"{path}.accounts"),
        "data": read_base58(item.get("data") or "", f"{path}.data", _ANY_LENGTH),
    }


def _is_simple_vote(transaction: Transaction) -> bool:
    """Recognize votes as validators do: legacy, one instruction, at most two signatures."""
    message = transaction.message
    if message.versioned or len(message.instructions) != 1 or len(transaction.signatures) > 2:
        return False
    program = message.instructions[0].program_id_index
    return program < len(message.account_keys) and message.account_keys[program] == VOTE_PROGRAM


# From JSON: what its execution left.


def _meta(value: Any) -> TransactionStatusMeta | None:
    if value is None:
        return None
    meta = read_object(value, "meta")
    inner = meta.get("innerInstructions")
    logs = meta.get("logMessages")
    loaded = read_object(meta.get("loadedAddresses") or {}, "meta.loadedAddresses")
    out = TransactionStatusMeta(
        fee=read_integer(meta.get("fee") or 0, "meta.fee"),
        pre_balances=read_integers(meta.get("preBalances"), "meta.preBalances"),
        post_balances=read_integers(meta.get("postBalances"), "meta.postBalances"),
        inner_instructions=[
            _inner(item, f"meta.innerInstructions[{i}]")
            for i, item in enumerate(read_list(inner, "meta.innerInstructions"))
        ],
        inner_instructions_none=inner is None,
        log_messages=read_texts(logs, "meta.logMessages"),
        log_messages_none=logs is None,
        pre_token_balances=_token_balances(meta, "preTokenBalances"),
        post_token_balances=_token_balances(meta, "postTokenBalances"),
        rewards=[
            _reward(item, f"meta.rewards[{i}]")
            for i, item in enumerate(read_list(meta.get("rewards"), "meta.rewards"))
        ],
        loaded_writable_addresses=_keys(loaded, "writable"),
        loaded_readonly_addresses=_keys(loaded, "readonly"),
        return_data_none=meta.get("returnData") is None,
    )
    if (error_value := meta.get("err")) is not None:
        out.err.err = transaction_error.to_wire(error_value)
    if (returned := meta.get("returnData")) is not None:
        _read_return_data(out, read_object(returned, "meta.returnData"))
    if (units := meta.get("computeUnitsConsumed")) is not None:
        out.compute_units_consumed = read_integer(units, "meta.computeUnitsConsumed")
    if (cost := meta.get("costUnits")) is not None:
        out.cost_units = read_integer(cost, "meta.costUnits")
    return out


def _inner(value: Any, path: str) -> InnerInstructions:
    group = read_object(value, path)
    out = InnerInstructions(index=read_byte(group.get("index"), f"{path}.index"))
    for i, item in enumerate(read_list(group.get("instructions"), f"{path}.instructions")):
        where = f"{path}.instructions[{i}]"
        fields = read_object(item, where)
        instruction = InnerInstruction(**_instruction_fields(fields, where))
        if (height := fields.get("stackHeight")) is not None:
            instruction.stack_height = read_byte(height, f"{where}.stackHeight")
        out.instructions.append(instruction)
    return out


def _token_balances(meta: Mapping[str, Any], field: str) -> list[TokenBalance]:
    out = []
    for i, item in enumerate(read_list(meta.get(field), f"meta.{field}")):
        path = f"meta.{field}[{i}]"
        entry = read_object(item, path)
        amount = read_object(entry.get("uiTokenAmount"), f"{path}.uiTokenAmount")
        raw = read_text(amount.get("amount"), f"{path}.uiTokenAmount.amount")
        if not (raw.isascii() and raw.isdigit() and len(raw) <= 20 and int(raw) < 2**64):
            raise ValueError(f"{path}.uiTokenAmount.amount: {raw[:32]!r} is no 64-bit amount")
        balance = TokenBalance(
            account_index=read_byte(entry.get("accountIndex"), f"{path}.accountIndex"),
            mint=read_text(entry.get("mint"), f"{path}.mint"),
            owner=read_text(entry.get("owner") or "", f"{path}.owner"),
            program_id=read_text(entry.get("programId") or "", f"{path}.programId"),
        )
        decimals = read_byte(amount.get("decimals"), f"{path}.uiTokenAmount.decimals")
        balance.ui_token_amount.amount = raw
        balance.ui_token_amount.decimals = decimals
        # Rounded twice, as validators do: RPC's own digits come out.
        balance.ui_token_amount.ui_amount = float(int(raw)) / float(10**decimals)
        balance.ui_token_amount.ui_amount_string = _ui_amount(int(raw), decimals)
        out.append(balance)
    return out


def _ui_amount(amount_raw: int, decimals: int) -> str:
    """Write the amount in whole tokens, without trailing zeros, as RPC does."""
    if not decimals:
        return str(amount_raw)
    whole, fraction = divmod(amount_raw, 10**decimals)
    return f"{whole}.{fraction:0{decimals}d}".rstrip("0").rstrip(".")


def _reward(value: Any, path: str) -> Reward:
    item = read_object(value, path)
    reward_type = item.get("rewardType") or "Unspecified"
    if reward_type not in RewardType.keys():  # noqa: SIM118 - an enum wrapper, not a dict
        raise ValueError(f"{path}.rewardType: {reward_type!r} is unknown")
    commission = item.get("commission")
    return Reward(
        pubkey=read_text(item.get("pubkey"), f"{path}.pubkey"),
        lamports=read_integer(item.get("lamports"), f"{path}.lamports", signed=True),
        post_balance=read_integer(item.get("postBalance") or 0, f"{path}.postBalance"),
        reward_type=reward_type,
        commission="" if commission is None else str(commission),
    )


def _read_return_data(out: TransactionStatusMeta, returned: Mapping[str, Any]) -> None:
    path = "meta.returnData"
    out.return_data.program_id = read_base58(returned.get("programId"), f"{path}.programId", 32)
    text, encoding = read_pair_of_text(returned.get("data"), f"{path}.data")
    if encoding != "base64" and text:  # Go clients write no data as ["", ""]
        raise ValueError(f"{path}.data: encoding {encoding!r} is not base64")
    try:
        out.return_data.data = base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"{path}.data: {error}") from None


def _keys(loaded: Mapping[str, Any], field: str) -> list[bytes]:
    path = f"meta.loadedAddresses.{field}"
    return [
        read_base58(key, f"{path}[{i}]", 32)
        for i, key in enumerate(read_list(loaded.get(field), path))
    ]


# To JSON.


def _transaction_to_json(transaction: Transaction) -> dict[str, Any]:
    message = transaction.message
    header = message.header
    out: dict[str, Any] = {
        "header": {
            "numRequiredSignatures": header.num_required_signatures,
            "numReadonlySignedAccounts": header.num_readonly_signed_accounts,
            "numReadonlyUnsignedAccounts": header.num_readonly_unsigned_accounts,
        },
        "accountKeys": _encode_all(message.account_keys),
        "recentBlockhash": base58.encode(message.recent_blockhash),
        "instructions": [
            _instruction_to_json(instruction, _OUTER_STACK_HEIGHT)
            for instruction in message.instructions
        ],
    }
    if message.versioned:
        out["addressTableLookups"] = [
            {
                "accountKey": base58.encode(lookup.account_key),
                "writableIndexes": list(lookup.writable_indexes),
                "readonlyIndexes": list(lookup.readonly_indexes),
            }
            for lookup in message.address_table_lookups
        ]
    return {"signatures": _encode_all(transaction.signatures), "message": out}


def _instruction_to_json(
    instruction: CompiledInstruction | InnerInstruction, stack_height: int | None
) -> dict[str, Any]:
    return {
        "programIdIndex": instruction.program_id_index,
        "accounts": list(instruction.accounts),
        "data": base58.encode(instruction.data),
        "stackHeight": stack_height,
    }


def _meta_to_json(meta: TransactionStatusMeta) -> dict[str, Any]:
    error = transaction_error.to_json(meta.err.err) if meta.HasField("err") else None
    out: dict[str, Any] = {
        "err": error,
        "status": {"Ok": None} if error is None else {"Err": error},
        "fee": meta.fee,
        "preBalances": list(meta.pre_balances),
        "postBalances": list(meta.post_balances),
        "innerInstructions": None
        if meta.inner_instructions_none
        else [
            {
                "index": group.index,
                "instructions": [
                    _instruction_to_json(
                        item, item.stack_height if item.HasField("stack_height") else None
                    )
                    for item in group.instructions
                ],
            }
            for group in meta.inner_instructions
        ],
        "logMessages": None if meta.log_messages_none else list(meta.log_messages),
        "preTokenBalances": [_token_balance_to_json(item) for item in meta.pre_token_balances],
        "postTokenBalances": [_token_balance_to_json(item) for item in meta.post_token_balances],
        "rewards": [reward_to_json(item) for item in meta.rewards],
        "loadedAddresses": {
            "writable": _encode_all(meta.loaded_writable_addresses),
            "readonly": _encode_all(meta.loaded_readonly_addresses),
        },
    }
    if meta.HasField("return_data"):
        out["returnData"] = {
            "programId": base58.encode(meta.return_data.program_id),
            "data": [base64.b64encode(meta.return_data.data).decode(), "base64"],
        }
    if meta.HasField("compute_units_consumed"):
        out["computeUnitsConsumed"] = meta.compute_units_consumed
    if meta.HasField("cost_units"):
        out["costUnits"] = meta.cost_units
    return out


def _token_balance_to_json(balance: TokenBalance) -> dict[str, Any]:
    amount = balance.ui_token_amount
    return {
        "accountIndex": balance.account_index,
        "mint": balance.mint,
        "uiTokenAmount": {
            "uiAmount": amount.ui_amount or None,  # RPC answers null for nothing
            "decimals": amount.decimals,
            "amount": amount.amount,
            "uiAmountString": amount.ui_amount_string,
        },
        "owner": balance.owner,
        "programId": balance.program_id,
    }


def reward_to_json(reward: Reward) -> dict[str, Any]:
    """Return a reward as RPC answers it."""
    return {
        "pubkey": reward.pubkey,
        "lamports": reward.lamports,
        "postBalance": reward.post_balance,
        "rewardType": RewardType.Name(reward.reward_type) if reward.reward_type else None,
        "commission": int(reward.commission) if reward.commission else None,
    }


def _encode_all(keys: Iterable[bytes]) -> list[str]:
    return [base58.encode(key) for key in keys]
