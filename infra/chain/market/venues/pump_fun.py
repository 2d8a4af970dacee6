"""pump.fun: a bonding curve on virtual reserves, paid in native SOL; every event twice.

The curve's lamports are its quote vault. Fees are taken outside it: a buyer pays them on top, a
seller gets them off, rounded up one by one; half of the protocol's goes to a buyback.
"""

from __future__ import annotations

from math import sqrt
from struct import Struct
from typing import Final, Literal

from infra.chain.market.runtime import spl
from infra.chain.market.runtime.events import Leg
from infra.chain.market.runtime.execution import Execution, mask
from infra.chain.market.runtime.ledger import Ledger, Mint
from infra.chain.market.runtime.programs import (
    NO_ADDRESS,
    PUMP_FEES,
    PUMP_FUN,
    SYSTEM,
    anchor_tag,
    event_tag,
    pda,
)
from infra.chain.market.venues.pump_swap import GET_FEES, volume_accumulator
from infra.chain.market.venues.venue import Call, Pool, Trader, ceil_div, pack_u64
from schemas.solana.addresses import key

GLOBAL: Final = key("4wTV1YmiEkRvAtNtsSGPtUrqRYQMe5SKy2uB4Jjaxnjf")
FEE_RECIPIENT: Final = key("62qc2CNXwrYqQScmEdiZFFAnJR262PxWEuNQtxfafNgV")
BUYBACK: Final = key("A7hAgCzFw14fejgCp387JUJRMNyz4j89JKnhtKU8piqW")
VOLUME: Final = key("Hq2wp8uJ9jCPsYgNHex8RtqdvMPfVGoYwjvF1ATiwn2Y")
FEE_CONFIG: Final = key("8Wf5TiAheLUqBrKXeYg2JtAFFMWtKdG2BSFgqUcPVwTt")
CURVE_RENT_LAMPORTS: Final = 1_941_840  # 151 bytes

SUPPLY_RAW: Final = 1_000_000_000_000_000
FOR_SALE_RAW: Final = 793_100_000_000_000
VIRTUAL_TOKENS_RAW: Final = 1_073_000_000_000_000
VIRTUAL_LAMPORTS: Final = 30_000_000_000
PROTOCOL_BPS: Final = 95
CREATOR_BPS: Final = 30
BUYBACK_BPS: Final = 5_000  # of the protocol's fee

_BUY: Final = anchor_tag("buy")
_BUY_EXACT_SOL_IN: Final = anchor_tag("buy_exact_sol_in")
_SELL: Final = anchor_tag("sell")
_TRADE: Final = event_tag("TradeEvent")
_COMPLETE: Final = event_tag("CompleteEvent")
_TWO: Final = Struct("<QQ").pack
_RESERVES: Final = Struct("<QQQQQ").pack
_FEES_CALL: Final = Struct("<8s?16sQ?").pack
_BUY_MASK: Final = mask("-w-wwww--w---w---w")
_SELL_MASK: Final = mask("-w-wwww-w------w")

_BuyName = Literal["buy", "buy_exact_sol_in"]


class BondingCurve(Pool):
    """A coin's curve; sides are (coin, SOL)."""

    __slots__ = ("_creator_vault", "_v2", "born_slot", "creator", "sol_raw", "tokens_raw")

    DEX = "pump-fun"
    IS_CURVE = True
    PROGRAM = PUMP_FUN
    SLIPPAGE_ERROR = 6_002
    MUTABLE = ("alive", "sol_raw", "tokens_raw")

    def __init__(self, ledger: Ledger, mint: Mint, sol: Mint, creator: bytes) -> None:
        address = pda(PUMP_FUN, b"bonding-curve", mint.address)
        super().__init__(ledger, address, (mint, sol), (ledger.associated(address, mint), address))
        self.creator = creator
        self.born_slot = 0
        self.sol_raw = 0  # real reserves
        self.tokens_raw = FOR_SALE_RAW
        self._creator_vault = pda(PUMP_FUN, b"creator-vault", creator)
        self._v2 = pda(PUMP_FUN, b"bonding-curve-v2", mint.address)

    @property
    def full(self) -> bool:
        """Whether everything for sale is sold."""
        return not self.tokens_raw

    @property
    def virtual_lamports(self) -> int:
        """Lamports the price is computed with."""
        return VIRTUAL_LAMPORTS + self.sol_raw

    @property
    def virtual_tokens(self) -> int:
        """Tokens the price is computed with."""
        return VIRTUAL_TOKENS_RAW - FOR_SALE_RAW + self.tokens_raw

    def vault_balances(self) -> tuple[int, int]:
        """Return the tokens of the curve's account and its lamports above rent."""
        held = self.ledger.lamports.get(self.address, 0)
        return self.ledger.balance(self.vaults[0]), held - CURVE_RENT_LAMPORTS

    def reserves(self) -> tuple[int, int]:
        """Return the real reserves."""
        return self.tokens_raw, self.sol_raw

    def cost(self, tokens_raw: int) -> int:
        """Return the lamports that `tokens_raw` cost, without fees."""
        return tokens_raw * self.virtual_lamports // (self.virtual_tokens - tokens_raw) + 1

    def _tokens_for(self, net: int) -> int:
        if net <= 1:
            return 0
        out = (net - 1) * self.virtual_tokens // (self.virtual_lamports + net - 1)
        return min(out, self.tokens_raw)

    def depth(self) -> tuple[float, float]:
        """Return liquidity and root price of the virtual reserves."""
        tokens, quote = self.virtual_tokens, self.virtual_lamports
        return sqrt(tokens) * sqrt(quote), sqrt(quote / tokens)

    def quote(self, mint_in: Mint, amount_in_raw: int) -> int:
        """Return the output for an input, fees included."""
        if mint_in is self.sides[1]:
            return self._tokens_for(_net_of_buy(amount_in_raw))
        gross = amount_in_raw * self.virtual_lamports // (self.virtual_tokens + amount_in_raw)
        return gross - sum(_fees(gross))

    def _accounts(self, trader: Trader, token_account: bytes, buys: bool) -> tuple[bytes, ...]:
        mint = self.sides[0]
        head = (
            GLOBAL,
            FEE_RECIPIENT,
            mint.address,
            self.address,
            self.vaults[0],
            token_account,
            trader.authority,
            SYSTEM.address,
        )
        vault, program = self._creator_vault, mint.program.address
        own = (PUMP_FUN.event_authority, PUMP_FUN.address)
        fees = (FEE_CONFIG, PUMP_FEES.address, self._v2, BUYBACK)
        if buys:
            volume = (VOLUME, volume_accumulator(PUMP_FUN, trader.authority))
            return (*head, program, vault, *own, *volume, *fees)
        return (*head, vault, program, *own, *fees)

    def call(self, trader: Trader, mint_in: Mint, amount_in_raw: int, min_out_raw: int) -> Call:
        """Return buy_exact_sol_in (18 accounts) or sell (16 accounts)."""
        if mint_in is self.sides[1]:
            accounts = self._accounts(trader, trader.destination, buys=True)
            data = _BUY_EXACT_SOL_IN + _TWO(amount_in_raw, min_out_raw) + b"\x00"
            return Call(accounts, _BUY_MASK, data)
        accounts = self._accounts(trader, trader.source, buys=False)
        return Call(accounts, _SELL_MASK, _SELL + _TWO(amount_in_raw, min_out_raw))

    def swap(
        self, tx: Execution, trader: Trader, mint_in: Mint, amount_in_raw: int, min_out_raw: int
    ) -> int:
        """Spend an exact amount of SOL, or sell an exact amount of tokens."""
        place = self.enter(tx, self.call(trader, mint_in, amount_in_raw, min_out_raw))
        if mint_in is self.sides[0]:
            return self._sell(tx, place, trader, amount_in_raw, min_out_raw)
        tx.log("Program log: Instruction: BuyExactSolIn")
        net = _net_of_buy(amount_in_raw)
        tokens = self._tokens_for(net)
        if tokens == self.tokens_raw:  # the last of the curve: pay what is left to pay
            net = min(net, self.cost(tokens))
        self.check(tokens, min_out_raw)
        return self._buy(tx, place, trader, tokens, net, "buy_exact_sol_in")

    def buy(self, tx: Execution, trader: Trader, tokens_raw: int, max_lamports: int) -> int:
        """Buy an exact amount of tokens for at most `max_lamports`, fees included."""
        accounts = self._accounts(trader, trader.destination, buys=True)
        data = _BUY + _TWO(tokens_raw, max_lamports) + b"\x01"
        place = self.enter(tx, Call(accounts, _BUY_MASK, data))
        tx.log("Program log: Instruction: Buy")
        tokens = min(tokens_raw, self.tokens_raw)
        net = self.cost(tokens)
        self.check(max_lamports, net + sum(_fees(net)))
        return self._buy(tx, place, trader, tokens, net, "buy")

    def _ask_fees(self, tx: Execution, trade_size: int) -> None:
        cap = self.virtual_lamports * SUPPLY_RAW // self.virtual_tokens
        data = _FEES_CALL(GET_FEES, True, cap.to_bytes(16, "little"), trade_size, False)
        tx.enter(PUMP_FEES, (FEE_CONFIG, PUMP_FUN.address), data)
        tx.log("Program log: Instruction: GetFees")
        tx.returns(PUMP_FEES, Struct("<QQQ").pack(0, PROTOCOL_BPS, CREATOR_BPS))
        tx.leave(3_302)

    def _buy(
        self, tx: Execution, place: int, trader: Trader, tokens: int, net: int, name: _BuyName
    ) -> int:
        mint, sol = self.sides
        protocol, creator = _fees(net)
        buyback = protocol * BUYBACK_BPS // 10_000
        user = trader.authority
        self._ask_fees(tx, net)
        spl.transfer_checked(tx, self.vaults[0], mint, trader.destination, self.address, tokens)
        spl.transfer_lamports(tx, user, self._creator_vault, creator)
        spl.transfer_lamports(tx, user, self.address, net)
        spl.transfer_lamports(tx, user, BUYBACK, buyback)
        spl.transfer_lamports(tx, user, FEE_RECIPIENT, protocol - buyback)
        tx.touch(self)
        self.sol_raw += net
        self.tokens_raw -= tokens
        self._emit_trade(tx, trader, True, net, tokens, name)
        if not self.tokens_raw:
            self._emit_complete(tx, user)
        tx.leave(45_000)
        total = net + protocol + creator
        leg = self.leg(tx, place, trader, sol, (net, tokens), (total, tokens))
        self._note(leg, protocol + creator)
        return tokens

    def _sell(
        self, tx: Execution, place: int, trader: Trader, tokens: int, min_lamports: int
    ) -> int:
        tx.log("Program log: Instruction: Sell")
        mint = self.sides[0]
        gross = tokens * self.virtual_lamports // (self.virtual_tokens + tokens)
        protocol, creator = _fees(gross)
        received = gross - protocol - creator
        self._ask_fees(tx, gross)
        self.check(max(received, 0), min_lamports)
        spl.transfer_checked(tx, trader.source, mint, self.vaults[0], trader.authority, tokens)
        # The curve belongs to the program, which moves its lamports without a System transfer.
        buyback = protocol * BUYBACK_BPS // 10_000
        tx.move_lamports(self.address, trader.authority, received)
        tx.move_lamports(self.address, FEE_RECIPIENT, protocol - buyback)
        tx.move_lamports(self.address, BUYBACK, buyback)
        tx.move_lamports(self.address, self._creator_vault, creator)
        tx.touch(self)
        self.sol_raw -= gross
        self.tokens_raw += tokens
        self._emit_trade(tx, trader, False, gross, tokens, "sell")
        tx.leave(40_000)
        leg = self.leg(tx, place, trader, mint, (tokens, gross), (tokens, received))
        self._note(leg, protocol + creator)
        return received

    def _note(self, leg: Leg, fee_lamports: int) -> None:
        leg.fee_raw, leg.fee_mint = fee_lamports, self.sides[1]
        leg.reserves_raw = self.reserves()
        leg.virtual_raw = (self.virtual_tokens, self.virtual_lamports)

    def _emit_trade(
        self, tx: Execution, trader: Trader, buys: bool, lamports: int, tokens: int, name: str
    ) -> None:
        protocol, creator = _fees(lamports)
        text = name.encode()
        event = (
            _TRADE
            + self.sides[0].address
            + _TWO(lamports, tokens)
            + (b"\x01" if buys else b"\x00")
            + trader.authority
            + _RESERVES(
                tx.time_s,
                self.virtual_lamports,
                self.virtual_tokens,
                self.sol_raw,
                self.tokens_raw,
            )
            + FEE_RECIPIENT
            + _TWO(PROTOCOL_BPS, protocol)
            + self.creator
            + _TWO(CREATOR_BPS, creator)
            + bytes(33)  # volume tracking: off, and four counters
            + len(text).to_bytes(4, "little")
            + text
            + bytes(17)  # no mayhem mode, no cashback
            + _TWO(BUYBACK_BPS, protocol * BUYBACK_BPS // 10_000)
            + bytes(4)  # no shareholders
            + NO_ADDRESS  # quote mint: native SOL
            + pack_u64(lamports)
            + _TWO(self.virtual_lamports, self.sol_raw)
        )
        tx.emit_log(event)
        tx.emit_cpi(PUMP_FUN, event)

    def _emit_complete(self, tx: Execution, user: bytes) -> None:
        event = (
            _COMPLETE
            + user
            + self.sides[0].address
            + self.address
            + pack_u64(tx.time_s)
            + NO_ADDRESS
        )
        tx.emit_log(event)
        tx.emit_cpi(PUMP_FUN, event)


def _fees(lamports: int) -> tuple[int, int]:
    return ceil_div(lamports * PROTOCOL_BPS, 10_000), ceil_div(lamports * CREATOR_BPS, 10_000)


def _net_of_buy(spendable: int) -> int:
    net = spendable * 10_000 // (10_000 + PROTOCOL_BPS + CREATOR_BPS)
    return net - max(net + sum(_fees(net)) - spendable, 0)
