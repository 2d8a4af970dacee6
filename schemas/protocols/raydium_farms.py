"""Raydium's farms: LP tokens that a wallet has staked there, as part of `raydium_amm_v4`.

Source: `farmLedgerLayoutV3_1`, `V3_2`, `V5_1`, `V5_2`, `V6_1` and the farms' own layouts in
Raydium's SDK; none has a tag. A farm names its vault of LP tokens (v6 the mint too), and no pool.
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
from schemas.protocols.raydium_farm_rewards import (
    FARM_V3,
    FARM_V5,
    FARM_V6,
    V3,
    V5,
    V6,
    rewards_of,
)
from schemas.protocols.token import TOKEN, TOKEN_2022, TOKEN_2022_EXTENDED
from schemas.solana.borsh import u64

LEDGERS: Final = (
    Kind("raydium_ledger_v3_1", V3, size=88, wallets=(40,)),
    Kind("raydium_ledger_v3_2", V3, size=232, wallets=(40,)),
    Kind("raydium_ledger_v5_1", V5, size=96, wallets=(40,)),
    Kind("raydium_ledger_v5_2", V5, size=248, wallets=(40,)),
    Kind("raydium_ledger_v6", V6, size=296, wallets=(48,)),
)
KINDS: Final = (FARM_V3, FARM_V5, FARM_V6, *LEDGERS)
_VAULT_AT: Final = {FARM_V3: 16, FARM_V5: 16, FARM_V6: 104}
_REWARD_VAULTS: Final = {FARM_V3: (48,), FARM_V5: (48, 113)}
_TOKENS: Final = (TOKEN, TOKEN_2022, TOKEN_2022_EXTENDED)
_NO_REWARD: Final = (
    "rewards: one is left out until the vault that pays it, and says of what, is known; it is "
    "asked for"
)


def read(route: str, held: Held, world: World) -> Reading:
    """Return what a wallet has staked in farms, in LP tokens, as positions of a route."""
    ledgers = [
        account
        for kind in LEDGERS
        for account in held.of(kind)
        if _at(account, kind.wallets[0]) == held.wallet and _deposited(account)
    ]
    if not ledgers:
        return []
    farms = yield sorted({_farm_of(each) for each in ledgers})
    vaults = yield sorted({at for farm in farms.values() for at in _vaults_of(farm)})
    return [_position(route, each, farms, vaults, world) for each in ledgers]


def _vaults_of(farm: Account) -> list[bytes]:
    """Return the vaults of a farm: of its LP tokens, and of rewards whose mint it does not name."""
    offsets = (_VAULT_AT.get(farm.kind), *_REWARD_VAULTS.get(farm.kind, ()))
    return [_at(farm, at) for at in offsets if at is not None]


def _position(
    route: str,
    ledger: Account,
    farms: Mapping[bytes, Account],
    vaults: Mapping[bytes, Account],
    world: World,
) -> Position:
    address = _farm_of(ledger)
    position = Position(route, ledger, market=address)
    farm = farms.get(address)
    if farm is None or farm.kind not in _VAULT_AT or farm.kind.program != ledger.kind.program:
        position.missing = [address]
        return position
    at = _at(farm, _VAULT_AT[farm.kind])
    vault = vaults.get(at)
    if vault is None or vault.kind not in _TOKENS:
        position.missing = [at]
        return position
    deposited_raw = _deposited(ledger)
    try:
        rewards = rewards_of(ledger, deposited_raw, farm, u64(vault.data, 64), world)
    except error:
        raise Unreadable("its farm, or the vault of it, is too short", ledger.address) from None
    position.assets = [Asset(Role.SUPPLY, _at(vault, 0), deposited_raw)]
    for reward in rewards:
        mint = reward.mint
        if mint is None:
            of = vaults.get(reward.vault)
            if of is None or of.kind not in _TOKENS:
                position.lacking.append(reward.vault)
                if _NO_REWARD not in position.unsupported_fields:
                    position.unsupported_fields.append(_NO_REWARD)
                continue
            mint = _at(of, 0)
        position.assets.append(Asset(Role.REWARD, mint, reward.amount_raw))
    position.reference_slot = min(farm.slot, vault.slot)
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
