"""From a venue's facts to events: sides, wallet, fees, router, platform.

Which token is `mint`: the side that is not the quote; quotes in order SOL, USDC, USDT,
USD1, else the pool's own second side, else the greater address.

Wallet: the owner whom the bytes name; else the trader whom the router's instruction names; else
the owner of the token accounts that moved, or the venue's user, if it signed; else who signed the
router's instruction; else who gave the input, if its tokens changed (a program's own account
trades); else whose tokens the outermost instruction moved first. A signer that only passed tokens
on for another signer was a sponsor. `ownership` then gives swaps that were made for somebody else
to their owner.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pipeline.decoding.contract import Created, Fact, Leg, Malformed, Migrated, Venue
from pipeline.decoding.platforms import PLATFORMS
from pipeline.decoding.routers import ROUTERS, Router
from pipeline.decoding.tips import TIP_ACCOUNTS
from pipeline.solana.transaction import Transaction
from schemas.events import Creation, Event, Migration, Side, Swap
from schemas.money import SOL_DECIMALS, USD1, USDC, USDT, WSOL
from schemas.solana.addresses import TOKEN_2022_PROGRAM, key, text

QUOTES: Final = {WSOL: 0, USDC: 1, USDT: 2, USD1: 3}
_U64_MAX: Final = 2**64 - 1
_EVENTS: Final = (Leg, Created, Migrated)  # facts that are events
_TOKEN_2022: Final = text(TOKEN_2022_PROGRAM)
_NO_QUOTE: Final = len(QUOTES)
_KNOWN_DECIMALS: Final = {WSOL: SOL_DECIMALS, USDC: 6, USDT: 6, USD1: 6}


def assemble(tx: Transaction, position: int, venue: Venue, facts: Iterable[Fact]) -> list[Event]:
    """Return the events of one instruction's facts.

    Raises Malformed where the facts contradict each other or the transaction.
    """
    return [_event(tx, position, venue, fact) for fact in facts if isinstance(fact, _EVENTS)]


def _event(tx: Transaction, position: int, venue: Venue, fact: Leg | Created | Migrated) -> Event:
    if isinstance(fact, Leg):
        return _swap(tx, position, venue, fact)
    if isinstance(fact, Created):
        return _creation(tx, position, venue, fact)
    return _migration(tx, position, venue, fact)


def quote_of(first: str, second: str, pool_second: str) -> str:
    """Return which of two mints is the quote."""
    rank_first, rank_second = QUOTES.get(first, _NO_QUOTE), QUOTES.get(second, _NO_QUOTE)
    if rank_first != rank_second:
        return first if rank_first < rank_second else second
    if pool_second in (first, second):
        return pool_second
    return max(first, second, key=key)  # as the chain orders keys: by their bytes


def _swap(tx: Transaction, position: int, venue: Venue, leg: Leg) -> Swap:
    paid = leg.input_raw if leg.paid_raw is None else leg.paid_raw
    received = leg.output_raw if leg.received_raw is None else leg.received_raw
    for amount in (leg.input_raw, leg.output_raw, paid, received):
        if not 0 <= amount <= _U64_MAX:
            raise Malformed(f"amount {amount} is not an unsigned 64-bit integer")
    if leg.input_mint == leg.output_mint:
        raise Malformed(f"both sides are {leg.input_mint}")
    quote = quote_of(leg.input_mint, leg.output_mint, leg.second_mint)
    router = ROUTERS.outermost(tx, position)
    buys = quote == leg.input_mint
    wallet = leg.owner or _wallet(tx, position, leg, buys, router)
    mint = leg.output_mint if buys else leg.input_mint
    reserve_in, reserve_out = leg.reserve_in_raw, leg.reserve_out_raw
    if venue.vaults_are_reserves:
        reserve_in, reserve_out = _held(tx, leg.vault_in), _held(tx, leg.vault_out)
    return Swap(
        signature=tx.signature,
        slot=tx.slot,
        tx_index=tx.index,
        event_index=position if leg.position is None else leg.position,
        block_time_ms=tx.block_time_ms,
        dex=venue.dex,
        program_id=text(tx.program(position)),
        pool=leg.pool,
        wallet=wallet,
        fee_payer=tx.fee_payer,
        mint=mint,
        quote_mint=quote,
        side=Side.BUY if buys else Side.SELL,
        amount_raw=leg.output_raw if buys else leg.input_raw,
        decimals=_decimals(tx, leg, mint),
        quote_amount_raw=leg.input_raw if buys else leg.output_raw,
        quote_decimals=_decimals(tx, leg, quote),
        wallet_amount_raw=received if buys else paid,
        wallet_quote_amount_raw=paid if buys else received,
        pool_fee_raw=_known(leg.fee_raw),
        pool_fee_mint=leg.fee_mint,
        fee_lamports=tx.fee_lamports,
        priority_fee_lamports=tx.priority_fee_lamports,
        tip_lamports=tx.lamports_to(TIP_ACCOUNTS),
        router=router[0].slug if router else ROUTERS.paid(tx),
        platform=leg.platform or PLATFORMS.of_trade(venue.dex, leg.config),
        reserve_raw=_known(reserve_out if buys else reserve_in),
        quote_reserve_raw=_known(reserve_in if buys else reserve_out),
        liquidity=leg.liquidity,
        sqrt_price_x64=leg.sqrt_price_x64,
        virtual_reserve_raw=_known(leg.virtual_out_raw if buys else leg.virtual_in_raw),
        virtual_quote_reserve_raw=_known(leg.virtual_in_raw if buys else leg.virtual_out_raw),
        for_sale_raw=leg.for_sale_raw if quote == leg.second_mint else None,
        migration_quote_raw=leg.migration_quote_raw if quote == leg.second_mint else None,
        keeper=leg.keeper,
    )


def _held(tx: Transaction, vault: int | None) -> int | None:
    """Return what a vault holds after the transaction."""
    account = None if vault is None else tx.token_account(vault)
    return None if account is None else account.post_raw


def _known(raw: int | None) -> int | None:
    """Return a figure that the tape can carry; no event is lost for one that makes no sense."""
    return raw if raw is not None and 0 <= raw <= _U64_MAX else None


def _creation(tx: Transaction, position: int, venue: Venue, created: Created) -> Creation:
    signers = tx.signer_addresses
    platform = created.platform or PLATFORMS.of_creation(
        venue.dex, created.creator, created.config, signers, created.partners
    )
    return Creation(
        signature=tx.signature,
        slot=tx.slot,
        tx_index=tx.index,
        event_index=position,
        block_time_ms=tx.block_time_ms,
        mint=created.mint,
        name=created.name,
        symbol=created.symbol,
        uri=created.uri,
        creator=created.creator,
        platform=platform,
        dex=venue.dex,
        pool=created.pool,
        quote_mint=created.quote_mint,
        decimals=tx.decimals.get(created.mint) if created.decimals is None else created.decimals,
        supply_raw=_known(created.supply_raw),
        token_program=created.token_program,
    )


def _migration(tx: Transaction, position: int, venue: Venue, migrated: Migrated) -> Migration:
    return Migration(
        signature=tx.signature,
        slot=tx.slot,
        tx_index=tx.index,
        event_index=position,
        block_time_ms=tx.block_time_ms,
        mint=migrated.mint,
        platform=PLATFORMS.of_trade(venue.dex, migrated.config),
        from_dex=venue.dex,
        from_pool=migrated.from_pool,
        dex=migrated.dex,
        pool=migrated.pool,
        quote_mint=migrated.quote_mint,
        amount_raw=_known(migrated.amount_raw),
        quote_amount_raw=_known(migrated.quote_amount_raw),
    )


def _decimals(tx: Transaction, leg: Leg, mint: str) -> int:
    found = _KNOWN_DECIMALS.get(mint)
    if found is None:
        found = tx.decimals.get(mint)
    if found is None:
        found = leg.decimals.get(mint)
    if found is None:
        raise Malformed(f"nothing states the decimals of {mint}")
    return found


def _wallet(
    tx: Transaction, position: int, leg: Leg, buys: bool, router: tuple[Router, int] | None
) -> str:
    """Return whose swap it was; see the module's rule."""
    near, far = (leg.destination, leg.source) if buys else (leg.source, leg.destination)
    owners = [
        account.owner
        for index in (near, far)
        if index is not None and (account := tx.token_account(index)) is not None and account.owner
    ]
    if leg.user is not None:
        owners.append(text(tx.keys[leg.user]))
    signers = tx.signer_addresses
    found = None
    if router is not None:
        named = router[0].named_user(tx, router[1])
        if named is not None:
            user = text(tx.keys[named])
            if user in signers or _keeps(tx, user):
                found = user
    if found is None:
        found = next((owner for owner in owners if owner in signers), None)
    if found is not None:
        return found if len(signers) == 1 else _behind(tx, found, signers)
    if router is not None:
        for index in tx.accounts[router[1]]:
            if index < tx.signers:
                return text(tx.keys[index])
    givers = _givers(tx, leg, leg.parts[0] if leg.parts else position)
    for owner in (*givers, *_first_giver(tx, position)):
        if owner in signers or _keeps(tx, owner):
            return owner
    return givers[0] if givers else tx.fee_payer


def _keeps(tx: Transaction, owner: str) -> bool:
    """Return whether an owner's tokens changed: an intermediary ends as it began."""
    return any(
        account.owner == owner and account.pre_raw != account.post_raw
        for account in tx.token_accounts.values()
    )


def _behind(tx: Transaction, owner: str, signers: list[str]) -> str:
    """Return the signer for whom another one, a sponsor, passed the tokens on, if so."""
    if _keeps(tx, owner):
        return owner
    others = [signer for signer in signers if signer != owner and _keeps(tx, signer)]
    return others[0] if len(others) == 1 else owner


def _givers(tx: Transaction, leg: Leg, position: int) -> list[str]:
    """Return who gave a swap's input: the owner of its account, and the venue's user."""
    owner = "" if leg.source is None else gave(tx, position, leg.source, leg.user)
    user = "" if leg.user is None else text(tx.keys[leg.user])
    return [each for each in (owner, user) if each]


def _first_giver(tx: Transaction, position: int) -> list[str]:
    """Return the owner of the tokens that the outermost instruction moved first."""
    outermost = [position, *tx.ancestors(position)][-1]
    moved = tx.transfers(outermost, nested=True)
    if not moved:
        return []
    owner = gave(tx, moved[0].position, moved[0].source, moved[0].authority)
    return [owner] if owner else []


def gave(tx: Transaction, position: int, source: int, authority: int | None) -> str:
    """Return who owned an account when tokens left it, if it agreed to that, else ''.

    Who is made its owner afterwards gave nothing. Of Token-2022 the mint's issuer may move tokens,
    too: there the owner's own authority counts.
    """
    account, holding = tx.token_account(source), tx.holding(source, position)
    if account is None or holding is None:
        return ""
    owner, _ = holding
    if account.program == _TOKEN_2022 and (authority is None or text(tx.keys[authority]) != owner):
        return ""
    return owner
