"""Voltr (Ranger Earn): shares of vaults as tokens of their asset, and withdrawals on their way.

A share is worth what a withdrawal pays now: its part of the vault's assets without the profit that
is still locked, less the redemption fee. Fees count as shares: those that were not harvested, and
the management fee since it was last charged. A request keeps shares in escrow, and pays what they
are worth at the end, though no more than when it was made. A vault whose own numbers leave nothing
to withdraw pays 0, and is no error: anybody can open one and send its shares.

What a vault has is what the adaptors say that its admin chose: a vault is an open market, and
counts where it is verified.

Source: the program's IDL (`Vault`, `RequestWithdrawVaultReceipt`); the arithmetic is that of
`@voltr/vault-sdk`: `calculateAssetsForWithdrawHelper`, `processWithdrawalReceipt`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from schemas.protocols.contract import (
    Account,
    Asset,
    Held,
    Kind,
    Lock,
    Position,
    Protocol,
    Reading,
    Role,
    Route,
    Shape,
    Unreadable,
    World,
)
from schemas.protocols.in_step import in_step
from schemas.protocols.mint import MINT, MINT_2022, MINT_2022_EXTENDED
from schemas.solana.addresses import key
from schemas.solana.borsh import raw_pubkey, u16, u64, u128
from schemas.solana.token_accounts import BadAccount, read_mint

PROGRAM: Final = key("vVoLTRjQmtFpiYoegx285Ze4gsLJ8ZxgFKVcuvmG1a8")

_SHARES_MINT_AT: Final = 272
_USER_AT: Final = 40
VAULT: Final = Kind(
    "voltr_vault",
    PROGRAM,
    bytes.fromhex("d308e82b02987577"),
    size=928,
    mints=(_SHARES_MINT_AT,),
)
REQUEST: Final = Kind(
    "voltr_withdrawal_request",
    PROGRAM,
    bytes.fromhex("cb51df8daf6c6572"),
    size=106,
    wallets=(_USER_AT,),
)

_WHOLE_BPS: Final = 10_000
_YEAR_S: Final = 365 * 86_400
_FRACTION_BITS: Final = 48  # of amounts that the program keeps as decimals
_LATEST_MS: Final = (1 << 53) - 1  # times are any u64 of seconds; JSON numbers are not
_PAYS_NOTHING: Final = "assets.amount_raw: the vault pays nothing now, for"
_NO_SUPPLY: Final = "assets.amount_raw: how many shares the vault has is not known"

# Each is named in the public code of two independent projects at least: Hubra's in its own monitors
# and in DefiLlama's adapters, Ranger's in the README of an application that builds on it and in
# another project's record of what Voltr's API lists.
_VERIFIED_VAULTS: Final = (
    "3maCuTJVPteZ2dFA8dADxz2EbpJHfoAG5txYhXDs6gNQ",  # Hubra: USDC
    "3kzb6rcDJxSdkWCwXXP9PULSqBy6rVDNWanzw5dBCYCj",  # Hubra: USDT
    "663azFYEnHDTLGf4CEk8KpNTje8XxZVLnQwo9LjbSejy",  # Hubra: USD1
    "5mv1cURMSaPU3q3wFVoN4mKMWNFVvUtH3UZrG4Z2Mgfz",  # Hubra: USDS
    "7VZ1XKK7Zns6UzRc1Wz54u6cypN7zaduasVXXr7NysxH",  # Hubra: USDG
    "9VTUJwN8paqF679yeMpDG6x6imtagCisYUSTCm1J8pXe",  # Ranger USD
)


def read(held: Held, world: World) -> Reading:
    """Return what a wallet's shares and requested withdrawals are worth; raises Unreadable."""
    return (yield from in_step(_read_shares(held, world), _read_requests(held, world)))


def _read_shares(held: Held, world: World) -> Reading:
    vaults = [
        vault for vault in held.of(VAULT) if held.tokens.get(_shares_mint(_checked(vault)), 0) > 0
    ]
    if not vaults:
        return []
    mints = yield tuple(dict.fromkeys(_shares_mint(vault) for vault in vaults))
    return [_share(vault, held.tokens[_shares_mint(vault)], mints, world) for vault in vaults]


def _share(vault: Account, shares: int, mints: Mapping[bytes, Account], world: World) -> Position:
    shares_mint = _shares_mint(vault)
    position = Position(
        "positions",
        vault,
        market=vault.address,
        open_markets=[vault.address],
        stands_for={shares_mint: shares},
    )
    amount_raw = _worth(vault, shares, mints, world, position)
    position.assets = [Asset(Role.SUPPLY, raw_pubkey(vault.data, 104), amount_raw)]
    return position


def _read_requests(held: Held, world: World) -> Reading:
    requests = [
        each
        for each in held.of(REQUEST)
        if raw_pubkey(_checked(each).data, _USER_AT) == held.wallet and u64(each.data, 72)
    ]
    if not requests:
        return []
    vaults: Mapping[bytes, Account] = yield tuple(
        dict.fromkeys(raw_pubkey(each.data, 8) for each in requests)
    )
    for each in requests:
        if (vault := vaults.get(raw_pubkey(each.data, 8))) and vault.kind is not VAULT:
            raise Unreadable(f"request: its vault at 8 is {vault.kind.name}", each.address)
    mints = yield tuple(dict.fromkeys(_shares_mint(_checked(each)) for each in vaults.values()))
    return [_request(each, vaults.get(raw_pubkey(each.data, 8)), mints, world) for each in requests]


def _request(
    request: Account, vault: Account | None, mints: Mapping[bytes, Account], world: World
) -> Position:
    address = raw_pubkey(request.data, 8)
    position = Position("positions", request, market=address, open_markets=[address])
    amount_raw: int | None = None
    ends_s = u64(request.data, 96)
    is_over = ends_s <= world.time_s
    if vault is None:
        position.missing.append(address)
        position.unsupported_fields.append("assets: the vault is not known, nor what it pays in")
    else:
        position.reference_slot = vault.slot
        amount_raw = _worth(vault, u64(request.data, 72), mints, world, position)
        if amount_raw is not None:
            amount_raw = min(amount_raw, u128(request.data, 80) >> _FRACTION_BITS)
        role = Role.SUPPLY if is_over else Role.PENDING
        position.assets = [Asset(role, raw_pubkey(vault.data, 104), amount_raw)]
    locked_raw, claimable_raw = (0, amount_raw) if is_over else (amount_raw, 0)
    ends_ms = min(ends_s * 1000, _LATEST_MS)
    position.locks = [Lock("cooldown", locked_raw, claimable_raw, ends_ms)]
    return position


def _worth(
    vault: Account, shares: int, mints: Mapping[bytes, Account], world: World, position: Position
) -> int | None:
    """Return the raw asset that a withdrawal pays for shares now, rounded down; raises Unreadable.

    None where the supply is not known, 0 where fees or locked profit take all that the vault has;
    the position then says so.
    """
    shares_mint = _shares_mint(vault)
    mint = mints.get(shares_mint)
    if mint is None:
        position.missing.append(shares_mint)
        position.unsupported_fields.append(_NO_SUPPLY)
        return None
    position.reference_slot = min(mint.slot, position.reference_slot or mint.slot)
    supply = _supply(mint)
    if shares > supply:
        raise Unreadable(f"vault: {shares} of {supply} shares", vault.address)
    data = vault.data
    total = u64(data, 168)
    unlocked = total - _locked_profit(data, world.time_s)
    redemption_bps = u16(data, 520)
    fee = _uncharged_fee(data, total, world.time_s)
    for pays_nothing, why in (
        (unlocked < 0, "more profit is locked at 672 than it has at 168"),
        (redemption_bps > _WHOLE_BPS, f"its redemption_fee at 520 is {redemption_bps}"),
        (fee and fee >= total, "its management fee is all that it has at 168"),
    ):
        if pays_nothing:
            position.unsupported_fields.append(f"{_PAYS_NOTHING} {why}")
            return 0
    harvestable = sum(u64(data, at) for at in (576, 584, 592))
    supply += harvestable + u64(data, 616)  # and the dead weight
    if fee:
        supply += -(-fee * supply // (total - fee))  # shares that the fee adds, rounded up
    return shares * unlocked * (_WHOLE_BPS - redemption_bps) // (supply * _WHOLE_BPS)


def _locked_profit(data: bytes, now_s: int) -> int:
    """Return the profit that does not count yet: less with every second since its report."""
    duration_s = u64(data, 448)
    left_s = duration_s - max(now_s - u64(data, 680), 0)
    return u64(data, 672) * left_s // duration_s if left_s > 0 else 0


def _uncharged_fee(data: bytes, total: int, now_s: int) -> int:
    """Return the management fee since it was last charged, in the asset."""
    charged_s = u64(data, 568)
    bps = sum(u16(data, at) for at in (516, 518, 526))  # manager, admin, protocol
    if not charged_s or now_s <= charged_s:
        return 0
    return total * (now_s - charged_s) * bps // _WHOLE_BPS // _YEAR_S


def _supply(mint: Account) -> int:
    if mint.kind not in (MINT, MINT_2022, MINT_2022_EXTENDED):
        raise Unreadable("the mint of a vault's shares is none", mint.address)
    try:
        return read_mint(mint.kind.program, mint.data).supply_raw
    except BadAccount as error:
        raise Unreadable(f"mint of shares: {error}", mint.address) from None


def _shares_mint(vault: Account) -> bytes:
    return raw_pubkey(vault.data, _SHARES_MINT_AT)


def _checked(account: Account) -> Account:
    if len(account.data) != account.kind.size:
        raise Unreadable(f"{account.kind.name} of {len(account.data)} bytes", account.address)
    return account


PROTOCOL: Final = Protocol(
    "voltr",
    (VAULT, REQUEST),
    (
        Route(
            "positions",
            Shape.YIELD,
            "Shares of vaults as a withdrawal pays them, and withdrawals that were requested",
        ),
    ),
    read,
    identified="guess",
    unsupported_fields=(
        "gains and losses of strategies, and performance fees, since they were last reported",
        "strategies are worth what the adaptors that a vault's admin chose say they are: a vault "
        "counts in sums where it is known, or VERIFIED_MARKETS names it",
        "fees that a vault's manager or admin may harvest",
    ),
    verified_markets=frozenset(map(key, _VERIFIED_VAULTS)),
    reads_tokens=True,
)
