"""The klend of the world: a market with reserves of SOL and USDC, and wallets that use it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from infra.chain.market.runtime.klend import (
    BITS,
    MARKET_RENT_LAMPORTS,
    OBLIGATION_RENT_LAMPORTS,
    RESERVE_RENT_LAMPORTS,
    LendingMarket,
    Obligation,
    Reserve,
    Terms,
)
from infra.chain.market.runtime.klend_program import Holder, Lent, obligation_address
from infra.chain.market.runtime.ledger import Ledger, Mint
from infra.chain.market.runtime.programs import (
    KLEND,
    KLEND_MAIN_MARKET,
    WSOL,
    derived,
    pda,
)
from infra.chain.market.runtime.stake import Native
from infra.chain.market.world.wallets import Wallet

_TERMS: Final = {9: Terms(75, 75, 110), 6: Terms(80, 80, 100)}
"""By decimals: SOL moves more than the dollar.

The threshold is as low as klend allows: prices move little here, and yet liquidate.
"""
_DEPOSITED: Final = 2  # part of what a wallet has, at the start
_BORROWED: Final = 12


class KlendWallets(NamedTuple):
    """Who has an obligation.

    The keeper has deposited much and liquidates; the borrower has deposited the first mint and
    borrowed the second, and does nothing more.
    """

    keeper: Wallet
    borrower: Wallet
    others: list[Wallet]  # who open theirs later


class KlendLender:
    """Reserves of some mints, and the obligations that wallets have with them."""

    def __init__(
        self,
        seed: int,
        ledger: Ledger,
        mints: Mapping[Mint, int],
        wallets: KlendWallets,
        slot: int,
        time_s: int,
    ) -> None:
        """Put the market, its reserves and two obligations on the ledger.

        Mints have dollars a token.
        """
        self._ledger = ledger
        self._slot = slot
        self.keeper, self.borrower, self.wallets = keeper, borrower, others = wallets
        self.market = KLEND_MAIN_MARKET
        self._put(self.market, LendingMarket(keeper.address), MARKET_RENT_LAMPORTS)
        self.lents = [self._reserve(seed, mint, price, time_s) for mint, price in mints.items()]
        self._holders = {
            each.address: Holder(obligation_address(self.market, each.address), each.address)
            for each in (keeper, borrower, *others)
        }
        obligation = self._obligation(keeper)
        for lent in self.lents:
            obligation = self._deposited(obligation, lent)
        self._open(obligation)
        first, second = self.lents
        obligation = self._deposited(self._obligation(borrower), first)
        self._open(self._borrowed(obligation, second, time_s))

    def holder(self, wallet: Wallet) -> Holder:
        """Return where a wallet's obligation is, or will be."""
        return self._holders[wallet.address]

    def reserve(self, lent: Lent) -> Reserve:
        """Return a reserve as it was last refreshed."""
        reserve = self._ledger.natives[lent.address]
        assert isinstance(reserve, Reserve)
        return reserve

    def obligation(self, wallet: Wallet) -> Obligation | None:
        """Return a wallet's obligation, None where it has none."""
        obligation = self._ledger.natives.get(self.holder(wallet).account)
        assert obligation is None or isinstance(obligation, Obligation)
        return obligation

    def _put(self, address: bytes, native: Native, lamports: int) -> None:
        self._ledger.natives[address] = native
        self._ledger.lamports[address] = lamports

    def _reserve(self, seed: int, mint: Mint, price: int, time_s: int) -> Lent:
        authority = pda(KLEND, b"lma", self.market)
        address, vault, fees, collateral, held, oracle = (
            derived(seed, "klend-reserve", mint.symbol, of)
            for of in ("reserve", "vault", "fees", "collateral-mint", "collateral-vault", "oracle")
        )
        collateral_mint = self._ledger.add_mint(
            Mint(collateral, mint.decimals, 0, authority=authority)
        )
        for account, of in ((vault, mint), (fees, mint), (held, collateral_mint)):
            self._ledger.endow(account, of, authority, 0)
        reserve = Reserve(
            *(self.market, mint.address, mint.decimals, mint.symbol, vault, fees),
            *(collateral, held, _TERMS[mint.decimals], self._slot),
            price_sf=price << BITS,
            price_s=time_s,
        )
        self._put(address, reserve, RESERVE_RENT_LAMPORTS)
        return Lent(
            *(self.market, authority, address, mint, vault, fees, collateral_mint, held, oracle)
        )

    def _obligation(self, wallet: Wallet) -> Obligation:
        return Obligation(self.market, wallet.address, self._slot)

    def _open(self, obligation: Obligation) -> None:
        reserves = {lent.address: self.reserve(lent) for lent in self.lents}
        address = self._holders[obligation.authority].account
        refreshed = obligation.refreshed(reserves, self._slot)
        self._put(address, refreshed, OBLIGATION_RENT_LAMPORTS)

    def _deposited(self, obligation: Obligation, lent: Lent) -> Obligation:
        """Move a part of what a wallet has into a reserve; a collateral token is a unit still."""
        own = self._ledger.associated(obligation.authority, lent.mint)
        amount_raw = self._ledger.balance(own) // _DEPOSITED
        self._move(own, lent.vault, amount_raw)
        self._ledger.tokens[lent.collateral_vault].amount_raw += amount_raw
        lent.collateral_mint.supply_raw += amount_raw
        reserve = self.reserve(lent)
        self._ledger.natives[lent.address] = replace(
            reserve,
            available_raw=reserve.available_raw + amount_raw,
            collateral_raw=reserve.collateral_raw + amount_raw,
        )
        before = obligation.deposit_of(lent.address)
        return obligation.with_deposit(replace(before, collateral_raw=amount_raw))

    def _borrowed(self, obligation: Obligation, lent: Lent, time_s: int) -> Obligation:
        """Move tokens out of a reserve: a part of what the wallet has already."""
        own = self._ledger.associated(obligation.authority, lent.mint)
        amount_raw = self._ledger.balance(own) // _BORROWED
        self._move(lent.vault, own, amount_raw)
        reserve = self.reserve(lent)
        self._ledger.natives[lent.address] = replace(
            reserve,
            available_raw=reserve.available_raw - amount_raw,
            debt_sf=reserve.debt_sf + (amount_raw << BITS),
        )
        before = obligation.borrow_of(lent.address)
        return obligation.with_borrow(
            replace(
                before, rate_sf=reserve.rate_sf, amount_sf=amount_raw << BITS, borrowed_s=time_s
            )
        )

    def _move(self, source: bytes, destination: bytes, amount_raw: int) -> None:
        tokens, lamports = self._ledger.tokens, self._ledger.lamports
        tokens[source].amount_raw -= amount_raw
        tokens[destination].amount_raw += amount_raw
        if tokens[source].mint.address == WSOL:  # wrapped SOL is its lamports
            lamports[source] -= amount_raw
            lamports[destination] += amount_raw
