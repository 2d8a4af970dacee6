"""pump.fun coins quoted in USDC: buy_v2 and sell_v2, with a token account as quote vault.

As seen on chain for trades without fees; the event names the quote in its newest fields and
leaves those of SOL at zero.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from infra.chain.market.runtime import spl
from infra.chain.market.runtime.execution import Execution, mask
from infra.chain.market.runtime.ledger import Ledger, Mint
from infra.chain.market.runtime.programs import (
    ASSOCIATED_TOKEN,
    PUMP_FEES,
    PUMP_FUN,
    SYSTEM,
    anchor_tag,
    derived,
    event_tag,
    pda,
)
from infra.chain.market.venues.pump_fun import (
    BUYBACK,
    FEE_CONFIG,
    FEE_RECIPIENT,
    GLOBAL,
    VOLUME,
    BondingCurve,
)
from infra.chain.market.venues.pump_swap import volume_accumulator
from infra.chain.market.venues.venue import Call, Trader, pack_two_u64, pack_u64

VIRTUAL_DOLLARS_RAW: Final = 9_773_313_612

_BUY: Final = anchor_tag("buy_v2")
_SELL: Final = anchor_tag("sell_v2")
_TRADE: Final = event_tag("TradeEvent")
_RESERVES: Final = Struct("<QQQQQ").pack
_BUY_WRITABLE: Final = mask("------wwwwwwwwwwww--ww-----")
_SELL_WRITABLE: Final = mask("------wwwwwwwwwwww-ww-----")


class DollarCurve(BondingCurve):
    """A coin's curve; sides are (coin, USDC)."""

    __slots__ = ("_sharing",)

    def __init__(self, ledger: Ledger, mint: Mint, usdc: Mint, creator: bytes) -> None:
        super().__init__(ledger, mint, usdc, creator)
        self.vaults = (self.vaults[0], ledger.associated(self.address, usdc))
        ledger.vaults[self.vaults[1]] = self.address
        self._sharing = derived("sharing-config", mint.address)

    @property
    def virtual_lamports(self) -> int:
        """Quote that the price is computed with: here USDC."""
        return VIRTUAL_DOLLARS_RAW + self.sol_raw

    def vault_balances(self) -> tuple[int, int]:
        """Return both token accounts' balances."""
        balance = self.ledger.balance
        return balance(self.vaults[0]), balance(self.vaults[1])

    def quote(self, mint_in: Mint, amount_in_raw: int) -> int:
        """Return the output for an input; there are no fees."""
        if mint_in is self.sides[1]:
            return self._tokens_for(amount_in_raw)
        return amount_in_raw * self.virtual_lamports // (self.virtual_tokens + amount_in_raw)

    def _accounts(self, trader: Trader, token_account: bytes, buys: bool) -> tuple[bytes, ...]:
        coin, quote = self.sides
        associated = self.ledger.associated
        user = trader.authority
        user_quote = trader.source if buys else trader.destination
        volume = volume_accumulator(PUMP_FUN, user)
        head = (
            GLOBAL,
            coin.address,
            quote.address,
            coin.program.address,
            quote.program.address,
            ASSOCIATED_TOKEN.address,
            FEE_RECIPIENT,
            associated(FEE_RECIPIENT, quote),
            BUYBACK,
            associated(BUYBACK, quote),
            self.address,
            *self.vaults,
            user,
            token_account,
            user_quote,
            self._creator_vault,
            pda(ASSOCIATED_TOKEN, self._creator_vault, quote.program.address, quote.address),
            self._sharing,
        )
        tail = (
            volume,
            pda(ASSOCIATED_TOKEN, volume, quote.program.address, quote.address),
            FEE_CONFIG,
            PUMP_FEES.address,
            SYSTEM.address,
            PUMP_FUN.event_authority,
            PUMP_FUN.address,
        )
        return (*head, VOLUME, *tail) if buys else (*head, *tail)

    def buy(self, tx: Execution, trader: Trader, tokens_raw: int, max_lamports: int) -> int:
        """Execute buy_v2 (27 accounts): an exact amount of tokens for at most so much USDC."""
        coin, quote = self.sides
        accounts = self._accounts(trader, trader.destination, buys=True)
        data = _BUY + pack_two_u64(tokens_raw, max_lamports)
        place = self.enter(tx, Call(accounts, _BUY_WRITABLE, data))
        tx.log("Program log: Instruction: BuyV2")
        tokens = min(tokens_raw, self.tokens_raw)
        cost = self.cost(tokens)
        self.check(max_lamports, cost)
        vault, quote_vault = self.vaults
        spl.transfer_checked(tx, vault, coin, trader.destination, self.address, tokens)
        spl.transfer_checked(tx, trader.source, quote, quote_vault, trader.authority, cost)
        tx.touch(self)
        self.sol_raw += cost
        self.tokens_raw -= tokens
        self._emit_trade(tx, trader, True, cost, tokens, "buy")
        tx.leave(60_000)
        moved = (cost, tokens)
        self._note(self.leg(tx, place, trader, quote, moved, moved), 0)
        return tokens

    def swap(
        self, tx: Execution, trader: Trader, mint_in: Mint, amount_in_raw: int, min_out_raw: int
    ) -> int:
        """Execute sell_v2 (26 accounts): an exact amount of tokens."""
        coin, quote = self.sides
        assert mint_in is coin, "buy_v2 asks for an exact output"
        accounts = self._accounts(trader, trader.source, buys=False)
        data = _SELL + pack_two_u64(amount_in_raw, min_out_raw)
        place = self.enter(tx, Call(accounts, _SELL_WRITABLE, data))
        tx.log("Program log: Instruction: SellV2")
        received = self.quote(coin, amount_in_raw)
        self.check(received, min_out_raw)
        vault, quote_vault = self.vaults
        spl.transfer_checked(tx, trader.source, coin, vault, trader.authority, amount_in_raw)
        spl.transfer_checked(tx, quote_vault, quote, trader.destination, self.address, received)
        tx.touch(self)
        self.sol_raw -= received
        self.tokens_raw += amount_in_raw
        self._emit_trade(tx, trader, False, received, amount_in_raw, "sell")
        tx.leave(60_000)
        moved = (amount_in_raw, received)
        self._note(self.leg(tx, place, trader, coin, moved, moved), 0)
        return received

    def _emit_trade(
        self, tx: Execution, trader: Trader, buys: bool, lamports: int, tokens: int, name: str
    ) -> None:
        text = name.encode()
        event = (
            _TRADE
            + self.sides[0].address
            + pack_two_u64(0, tokens)
            + (b"\x01" if buys else b"\x00")
            + trader.authority
            + _RESERVES(tx.time_s, 0, self.virtual_tokens, 0, self.tokens_raw)
            + FEE_RECIPIENT
            + bytes(16)
            + self.creator
            + bytes(16 + 33)
            + len(text).to_bytes(4, "little")
            + text
            + bytes(17 + 16 + 4)  # no mayhem mode, cashback, buyback or shareholders
            + self.sides[1].address
            + pack_u64(lamports)
            + pack_two_u64(self.virtual_lamports, self.sol_raw)
        )
        tx.emit_log(event)
        tx.emit_cpi(PUMP_FUN, event)
