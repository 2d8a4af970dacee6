"""Raydium's farms: LP tokens that a wallet has staked there, as part of `raydium_amm_v4`.

Source: `farmLedgerLayoutV3_1`, `V3_2`, `V5_1`, `V5_2`, `V6_1` and the farms' own layouts in
Raydium's SDK; none has a tag. A farm names its vault of LP tokens (v6 the mint too), and no pool:
what is staked is counted in LP tokens. Rewards are not computed.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import error
from typing import Final

from schemas.protocols.contract import (
    Account,
    Asset,
    Held,
    Kind,
    Position,
    Reading,
    Role,
    Unreadable,
    World,
)
from schemas.protocols.token import TOKEN, TOKEN_2022, TOKEN_2022_EXTENDED
from schemas.solana.addresses import key
from schemas.solana.borsh import u64

_V3: Final = key("EhhTKczWMGQt46ynNeRX1WfeagwwJd7ufHvCDjRxjo5Q")
_V5: Final = key("9KEPoZmtHUrBbhWN1v1KWLMkkvwY6WLtAVUCPRtRjP4z")
_V6: Final = key("FarmqiPv5eAj3j1GMdMCMUGXqPUvmquZtMy86QH6rzhG")

FARM_V3: Final = Kind("raydium_farm_v3", _V3, size=200)
FARM_V5: Final = Kind("raydium_farm_v5", _V5, size=224)
FARM_V6: Final = Kind("raydium_farm_v6", _V6, size=1976)
LEDGERS: Final = (
    Kind("raydium_ledger_v3_1", _V3, size=88, wallets=(40,)),
    Kind("raydium_ledger_v3_2", _V3, size=232, wallets=(40,)),
    Kind("raydium_ledger_v5_1", _V5, size=96, wallets=(40,)),
    Kind("raydium_ledger_v5_2", _V5, size=248, wallets=(40,)),
    Kind("raydium_ledger_v6", _V6, size=296, wallets=(48,)),
)
KINDS: Final = (FARM_V3, FARM_V5, FARM_V6, *LEDGERS)
_VAULT_AT: Final = {FARM_V3: 16, FARM_V5: 16, FARM_V6: 104}
_TOKENS: Final = (TOKEN, TOKEN_2022, TOKEN_2022_EXTENDED)


def read(route: str, held: Held, world: World) -> Reading:
    """Return what a wallet has staked in farms, as positions of a route."""
    ledgers = [
        account
        for kind in LEDGERS
        for account in held.of(kind)
        if _at(account, kind.wallets[0]) == held.wallet and _deposited(account)
    ]
    farms = yield sorted({_farm_of(each) for each in ledgers})
    vaults = yield sorted(
        {_at(farm, _VAULT_AT[farm.kind]) for farm in farms.values() if farm.kind in _VAULT_AT}
    )
    return [_position(route, each, farms, vaults) for each in ledgers]


def _position(
    route: str, ledger: Account, farms: Mapping[bytes, Account], vaults: Mapping[bytes, Account]
) -> Position:
    address = _farm_of(ledger)
    position = Position(route, ledger, market=address)
    position.unsupported_fields = [
        "assets: both tokens of the pool, which a farm does not name; LP tokens instead",
        "rewards: what the farm owes is not computed",
    ]
    farm = farms.get(address)
    if farm is None or farm.kind not in _VAULT_AT or farm.kind.program != ledger.kind.program:
        position.missing = [address]
        return position
    at = _at(farm, _VAULT_AT[farm.kind])
    vault = vaults.get(at)
    if vault is None or vault.kind not in _TOKENS:
        position.missing = [at]
        return position
    position.reference_slot = farm.slot  # of the vault the mint alone is read, which never changes
    position.assets = [Asset(Role.SUPPLY, _at(vault, 0), _deposited(ledger))]
    return position


def _farm_of(ledger: Account) -> bytes:
    return _at(ledger, ledger.kind.wallets[0] - 32)


def _deposited(ledger: Account) -> int:
    try:
        return u64(ledger.data, ledger.kind.wallets[0] + 32)
    except error:
        raise Unreadable(f"a ledger of {len(ledger.data)} bytes", ledger.address) from None


def _at(account: Account, at: int) -> bytes:
    found = account.data[at : at + 32]
    if len(found) < 32:
        raise Unreadable(f"no address at {at} of {len(account.data)} bytes", account.address)
    return found
