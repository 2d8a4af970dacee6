"""Coders of other make, in Node: they write accounts, read accounts, and compute activations."""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from schemas.solana.addresses import text
from schemas.solana.stake_accounts import StakeAccount
from schemas.solana.token_accounts import MetaplexMetadata, MintAccount, TokenAccountState
from schemas.solana.token_extensions import Extension, MintExtensions, TransferFee
from tests.support import npm

SCRIPT = Path(__file__).parent / "coders"


class Coders:
    """The script, started once; questions go in by the list."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self._folder = npm.installed(request, "coders", SCRIPT, "@solana-program/token-2022")

    def ask(self, questions: list[dict[str, Any]]) -> list[Any]:
        """Return the answers, in order."""
        done = subprocess.run(
            ["node", "coders.cjs"],
            cwd=self._folder,
            input="".join(json.dumps(question) + "\n" for question in questions),
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        assert len(answers) == len(questions)
        return answers

    def decode(self, accounts: list[tuple[str, bytes]]) -> list[Any]:
        """Return accounts as their coders read them; each is (kind, data)."""
        return self.ask(
            [{"decode": kind, "data": base64.b64encode(data).decode()} for kind, data in accounts]
        )

    def random(self, kind: str, seeds: range) -> list[tuple[bytes, Any]]:
        """Return (data, account) of random accounts of a kind."""
        made = self.ask([{"random": kind, "seed": seed} for seed in seeds])
        return [(base64.b64decode(each["data"]), each["account"]) for each in made]


def stake(read: StakeAccount) -> dict[str, Any]:
    """Return our stake account in the coder's form, without the rate that nobody uses."""
    meta = {
        "rentExemptReserve": str(read.rent_lamports),
        "authorized": {"staker": text(read.staker), "withdrawer": text(read.withdrawer)},
        "lockup": {
            "unixTimestamp": str(read.lockup.until_s),
            "epoch": str(read.lockup.until_epoch),
            "custodian": text(read.lockup.custodian),
        },
    }
    of = read.delegation
    if of is None:
        return {"state": {"__kind": "Initialized", "fields": [meta]}}
    delegation = {
        "voterPubkey": text(of.vote_account),
        "stake": str(of.stake_lamports),
        "activationEpoch": str(of.activation_epoch),
        "deactivationEpoch": str(of.deactivation_epoch),
    }
    fields = [
        meta,
        {"delegation": delegation, "creditsObserved": str(read.credits_observed)},
        {"bits": read.flags},
    ]
    return {"state": {"__kind": "Stake", "fields": fields}}


def token(read: TokenAccountState, state: int) -> dict[str, Any]:
    """Return our token account in the coder's form, without extensions."""
    assert read.is_frozen == (state == 2)
    return {
        "mint": text(read.mint),
        "owner": text(read.owner),
        "amount": str(read.amount_raw),
        "delegate": _address(read.delegate),
        "state": state,
        "isNative": _number(read.native_reserve_lamports),
        "delegatedAmount": str(read.delegated_raw),
        "closeAuthority": _address(read.close_authority),
    }


def mint(read: MintAccount) -> dict[str, Any]:
    """Return our mint in the coder's form, without extensions."""
    return {
        "mintAuthority": _address(read.mint_authority),
        "supply": str(read.supply_raw),
        "decimals": read.decimals,
        "isInitialized": True,
        "freezeAuthority": _address(read.freeze_authority),
    }


def metadata(read: MetaplexMetadata) -> dict[str, Any]:
    """Return our Metaplex metadata in the coder's form."""
    return {
        "updateAuthority": text(read.update_authority),
        "mint": text(read.mint),
        "name": read.texts.name,
        "symbol": read.texts.symbol,
        "uri": read.texts.uri,
        "sellerFeeBasisPoints": read.seller_fee_bps,
        "creators": [
            {
                "address": text(each.address),
                "verified": each.is_verified,
                "share": each.share_percent,
            }
            for each in read.creators
        ],
        "primarySaleHappened": read.is_primary_sale_over,
        "isMutable": read.is_mutable,
    }


def metadata_of_peer(read: dict[str, Any]) -> dict[str, Any]:
    """Return the coder's metadata in our form: texts without padding, no creators as none."""
    texts = {name: read[name].rstrip("\0").strip() for name in ("name", "symbol", "uri")}
    mine = {**read, **texts, "creators": read["creators"] or []}
    return {name: mine[name] for name in mine if name in METADATA}


METADATA = (
    *("updateAuthority", "mint", "name", "symbol", "uri", "sellerFeeBasisPoints"),
    *("creators", "primarySaleHappened", "isMutable"),
)


def mint_extensions(read: MintExtensions) -> dict[str, Any]:
    """Return our extensions by the coder's names, those that we read."""
    found: dict[str, Any] = {}
    if fee := read.transfer_fee:
        found["TransferFeeConfig"] = {
            "transferFeeConfigAuthority": _address(fee.config_authority),
            "withdrawWithheldAuthority": _address(fee.withdraw_authority),
            "withheldAmount": str(fee.withheld_raw),
            "olderTransferFee": _fee(fee.older),
            "newerTransferFee": _fee(fee.newer),
        }
    if interest := read.interest_bearing:
        found["InterestBearingConfig"] = {
            "rateAuthority": _address(interest.rate_authority),
            "initializationTimestamp": str(interest.initialized_s),
            "preUpdateAverageRate": interest.average_rate_bps,
            "lastUpdateTimestamp": str(interest.updated_s),
            "currentRate": interest.current_rate_bps,
        }
    if scaled := read.scaled_ui_amount:
        found["ScaledUiAmountConfig"] = {
            "authority": _address(scaled.authority),
            "multiplier": scaled.multiplier,
            "newMultiplierEffectiveTimestamp": str(scaled.new_multiplier_from_s),
            "newMultiplier": scaled.new_multiplier,
        }
    if hook := read.transfer_hook:
        found["TransferHook"] = {
            "authority": _address(hook.authority),
            "programId": _address(hook.program),
        }
    if pointer := read.metadata_pointer:
        found["MetadataPointer"] = {
            "authority": _address(pointer.authority),
            "metadataAddress": _address(pointer.address),
        }
    if own := read.metadata:
        found["TokenMetadata"] = {
            "updateAuthority": _address(own.update_authority),
            "mint": text(own.mint),
            "name": own.texts.name,
            "symbol": own.texts.symbol,
            "uri": own.texts.uri,
            "additionalMetadata": [list(pair) for pair in own.additional],
        }
    if pausable := read.pausable:
        found["PausableConfig"] = {
            "authority": _address(pausable.authority),
            "paused": pausable.is_paused,
        }
    if read.close_authority:
        found["MintCloseAuthority"] = {"closeAuthority": text(read.close_authority)}
    if read.permanent_delegate:
        found["PermanentDelegate"] = {"delegate": text(read.permanent_delegate)}
    if read.default_state is not None:
        found["DefaultAccountState"] = {"state": read.default_state}
    if read.is_non_transferable:
        found["NonTransferable"] = {}
    return found


def extensions_of_peer(read: dict[str, Any]) -> tuple[list[int], dict[str, Any]]:
    """Return the numbers of a coder's extensions, and their fields by name, zero keys as None."""
    found = {}
    kinds = []
    for each in read.get("extensions") or ():
        fields = dict(each)
        name = fields.pop("__kind")
        kinds.append(NUMBERS[name])
        if name == "TokenMetadata":
            fields |= {key: fields[key].strip() for key in ("name", "symbol", "uri")}
        if name == "ScaledUiAmountConfig":  # JSON of a float may have no point
            fields |= {key: float(fields[key]) for key in ("multiplier", "newMultiplier")}
        found[name] = {key: None if value == ZERO else value for key, value in fields.items()}
    return kinds, found


ZERO = text(bytes(32))
NUMBERS = {each.name.title().replace("_", ""): each.value for each in Extension}
"""Extensions by the coder's names."""


def _fee(fee: TransferFee) -> dict[str, Any]:
    return {
        "epoch": str(fee.epoch),
        "maximumFee": str(fee.maximum_raw),
        "transferFeeBasisPoints": fee.basis_points,
    }


def _address(key: bytes | None) -> str | None:
    return None if key is None else text(key)


def _number(value: int | None) -> str | None:
    return None if value is None else str(value)
