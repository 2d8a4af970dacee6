"""PumpSwap: constant product; every event twice, in the logs and as a call to itself.

Lp, protocol and creator fees are all in the quote. The pool keeps the lp fee; the others leave
with the trade: on a buy the user pays them beside the pool, on a sale the pool pays them out.
"""

from __future__ import annotations

from functools import lru_cache
from math import isqrt
from struct import Struct
from typing import Final, NamedTuple

from infra.chain.market.runtime import spl
from infra.chain.market.runtime.execution import Execution, InstructionError, mask
from infra.chain.market.runtime.ledger import Ledger, Mint
from infra.chain.market.runtime.programs import (
    ASSOCIATED_TOKEN,
    PUMP_FEES,
    PUMP_SWAP,
    SYSTEM,
    TOKEN_2022,
    Program,
    anchor_tag,
    event_tag,
    pda,
    pda_and_bump,
)
from infra.chain.market.venues.directory import Directory
from infra.chain.market.venues.venue import (
    Call,
    Pool,
    Trader,
    ceil_div,
    constant_product_out,
    pack_u64,
)
from schemas.solana.addresses import key

GLOBAL_CONFIG: Final = key("ADyA8hdefvWN2dbGGWFotbzWxrAvLW83WG6QCVXvJKqw")
FEE_CONFIG: Final = key("5PHirr8joyTMp9JMm6nW7hNDVyEYdkzDqazxPD7RaTjx")
VOLUME: Final = key("C2aFPdENg4A2HQsmrd5rTw5TaYBX5Ku887cWjbFKtZpw")
FEE_RECIPIENT: Final = key("62qc2CNXwrYqQScmEdiZFFAnJR262PxWEuNQtxfafNgV")
BUYBACK: Final = key("GXPFM2caqTtQYC2cJ5yJRi9VDkpsYZXzYdwYpGnLmtDL")
GET_FEES: Final = bytes.fromhex("e7257e55cf5b3f34")
MINIMUM_LIQUIDITY: Final = 100

_BUY_EXACT_IN: Final = anchor_tag("buy_exact_quote_in")
_SELL: Final = anchor_tag("sell")
_CREATE_POOL: Final = anchor_tag("create_pool")
_BUY_EVENT: Final = event_tag("BuyEvent")
_SELL_EVENT: Final = event_tag("SellEvent")
_CREATE_EVENT: Final = event_tag("CreatePoolEvent")
_NUMBERS: Final = Struct("<14Q").pack
_TWO: Final = Struct("<QQ").pack
_FEES_CALL: Final = Struct("<8s?16sQ").pack
_BUY_WRITABLE: Final = mask("ww---wwww-w------w--w---" + "-w")
_SELL_WRITABLE: Final = mask("ww---wwww-w------w----" + "-w")


@lru_cache(maxsize=20_000)
def volume_accumulator(program: Program, user: bytes) -> bytes:
    """Return where a pump program counts a user's volume."""
    return pda(program, b"user_volume_accumulator", user)


class FeeTier(NamedTuple):
    """Basis points by recipient."""

    lp: int
    protocol: int
    creator: int


SMALL: Final = FeeTier(2, 93, 30)
LARGE: Final = FeeTier(20, 5, 5)


class PumpSwapPool(Pool):
    """A pool; sides are (base, quote)."""

    __slots__ = (
        "_buy_tail",
        "_creator_authority",
        "_creator_vault",
        "_fee_account",
        "_v2",
        "bump",
        "coin_creator",
        "fees",
        "lp_mint",
    )

    DEX = "pump-swap"
    PROGRAM = PUMP_SWAP
    SLIPPAGE_ERROR = 6_004
    ROUTE_STEP = b"\x52"
    MUTABLE = ("alive",)

    def __init__(
        self,
        ledger: Ledger,
        creator: bytes,
        sides: tuple[Mint, Mint],
        coin_creator: bytes,
        fees: FeeTier = SMALL,
        amounts: tuple[int, int] | None = None,
    ) -> None:
        base, quote = sides
        address, self.bump = pda_and_bump(
            PUMP_SWAP, b"pool", bytes(2), creator, base.address, quote.address
        )
        vaults = (ledger.associated(address, base), ledger.associated(address, quote))
        super().__init__(ledger, address, sides, vaults)
        self.coin_creator = coin_creator
        self.fees = fees
        self.lp_mint = pda(PUMP_SWAP, b"pool_lp_mint", address)
        self._v2 = pda(PUMP_SWAP, b"pool-v2", base.address)
        self._creator_authority = pda(PUMP_SWAP, b"creator_vault", coin_creator)
        self._creator_vault = ledger.associated(self._creator_authority, quote)
        self._fee_account = ledger.associated(FEE_RECIPIENT, quote)
        buyback = ledger.associated(BUYBACK, quote)
        self._buy_tail = (self._v2, BUYBACK, buyback)
        if amounts is not None:
            for vault, mint, amount in zip(vaults, sides, amounts, strict=True):
                ledger.endow(vault, mint, address, amount)
        for account, owner in (
            (self._fee_account, FEE_RECIPIENT),
            (buyback, BUYBACK),
            (self._creator_vault, self._creator_authority),
        ):
            if account not in ledger.tokens:
                ledger.endow(account, quote, owner, 0)

    def _net_of_buy(self, spendable: int) -> int:
        """Return what of a whole payment reaches the curve, beside the fees."""
        fees = self.fees
        net = spendable * 10_000 // (10_000 + sum(fees))
        paid = net + sum(ceil_div(net * bps, 10_000) for bps in fees)
        return net - max(paid - spendable, 0)

    def quote(self, mint_in: Mint, amount_in_raw: int) -> int:
        """Return the output for an input."""
        base, quote = self.reserves()
        if mint_in is self.sides[1]:
            return constant_product_out(quote, base, self._net_of_buy(amount_in_raw) - 1)
        gross = constant_product_out(base, quote, amount_in_raw)
        return gross - sum(ceil_div(gross * bps, 10_000) for bps in self.fees)

    def call(self, trader: Trader, mint_in: Mint, amount_in_raw: int, min_out_raw: int) -> Call:
        """Return buy_exact_quote_in (26 accounts) or sell (24 accounts)."""
        base, quote = self.sides
        buys = mint_in is quote
        user_base, user_quote = (
            (trader.destination, trader.source) if buys else (trader.source, trader.destination)
        )
        head = (
            self.address,
            trader.authority,
            GLOBAL_CONFIG,
            base.address,
            quote.address,
            user_base,
            user_quote,
            *self.vaults,
            FEE_RECIPIENT,
            self._fee_account,
            base.program.address,
            quote.program.address,
            SYSTEM.address,
            ASSOCIATED_TOKEN.address,
            PUMP_SWAP.event_authority,
            PUMP_SWAP.address,
            self._creator_vault,
            self._creator_authority,
        )
        fees = (FEE_CONFIG, PUMP_FEES.address)
        if buys:
            volume = (VOLUME, volume_accumulator(PUMP_SWAP, trader.authority))
            data = _BUY_EXACT_IN + _TWO(amount_in_raw, min_out_raw)
            return Call((*head, *volume, *fees, *self._buy_tail), _BUY_WRITABLE, data)
        data = _SELL + _TWO(amount_in_raw, min_out_raw)
        return Call((*head, *fees, *self._buy_tail), _SELL_WRITABLE, data)

    def _ask_fees(self, tx: Execution, trade_size: int) -> None:
        base, quote = self.reserves()
        cap = (quote * self.sides[0].supply_raw // max(base, 1)).to_bytes(16, "little")
        accounts = (FEE_CONFIG, PUMP_SWAP.address)
        tx.enter(PUMP_FEES, accounts, _FEES_CALL(GET_FEES, True, cap, trade_size))
        tx.log("Program log: Instruction: GetFees")
        tx.returns(PUMP_FEES, b"".join(map(pack_u64, self.fees)))
        tx.leave(3_302)

    def swap(
        self, tx: Execution, trader: Trader, mint_in: Mint, amount_in_raw: int, min_out_raw: int
    ) -> int:
        """Buy with an exact quote, or sell an exact base."""
        place = self.enter(tx, self.call(trader, mint_in, amount_in_raw, min_out_raw))
        if mint_in is self.sides[1]:
            return self._buy(tx, place, trader, amount_in_raw, min_out_raw)
        return self._sell(tx, place, trader, amount_in_raw, min_out_raw)

    def _buy(
        self, tx: Execution, place: int, trader: Trader, spendable: int, min_out_raw: int
    ) -> int:
        tx.log("Program log: Instruction: BuyExactQuoteIn")
        base, quote = self.sides
        pool_base, pool_quote = self.reserves()
        net = self._net_of_buy(spendable)
        lp, protocol, creator = (ceil_div(net * bps, 10_000) for bps in self.fees)
        out = constant_product_out(pool_quote, pool_base, net - 1)
        self._ask_fees(tx, spendable)
        self.check(out, min_out_raw)
        balance = tx.ledger.balance
        user_base, user_quote = balance(trader.destination), balance(trader.source)
        spl.transfer_checked(tx, self.vaults[0], base, trader.destination, self.address, out)
        user = trader.authority
        spl.transfer_checked(tx, trader.source, quote, self.vaults[1], user, net + lp)
        spl.transfer_checked(tx, trader.source, quote, self._fee_account, user, protocol)
        spl.transfer_checked(tx, trader.source, quote, self._creator_vault, user, creator)
        total = net + lp + protocol + creator
        # buy_exact_quote_in reports the whole payment where buy reports the net one, and
        # the other way round.
        numbers = _NUMBERS(
            tx.time_s,
            out,
            spendable,
            user_base,
            user_quote,
            pool_base,
            pool_quote,
            total,
            self.fees.lp,
            lp,
            self.fees.protocol,
            protocol,
            net + lp,
            net,
        )
        event = (
            _BUY_EVENT
            + numbers
            + self.address
            + user
            + trader.destination
            + trader.source
            + FEE_RECIPIENT
            + self._fee_account
            + self.coin_creator
            + _TWO(self.fees.creator, creator)
            + bytes(33)  # volume tracking: off, and four counters
            + pack_u64(min_out_raw)
            + b"\x12\x00\x00\x00buy_exact_quote_in"
            + bytes(32)  # cashback and buyback: basis points and amount
        )
        tx.emit_log(event)
        tx.emit_cpi(PUMP_SWAP, event)
        tx.leave(60_000)
        leg = self.leg(tx, place, trader, quote, (net + lp, out), (total, out))
        leg.fee_raw, leg.fee_mint = lp + protocol + creator, quote
        leg.reserves_raw = self.reserves()
        return out

    def _sell(
        self, tx: Execution, place: int, trader: Trader, amount: int, min_out_raw: int
    ) -> int:
        tx.log("Program log: Instruction: Sell")
        base, quote = self.sides
        pool_base, pool_quote = self.reserves()
        gross = constant_product_out(pool_base, pool_quote, amount)
        lp, protocol, creator = (ceil_div(gross * bps, 10_000) for bps in self.fees)
        received = gross - lp - protocol - creator
        self._ask_fees(tx, gross)
        self.check(max(received, 0), min_out_raw)
        balance = tx.ledger.balance
        user_base, user_quote = balance(trader.source), balance(trader.destination)
        vault_base, vault_quote = self.vaults
        spl.transfer_checked(tx, trader.source, base, vault_base, trader.authority, amount)
        pool = self.address
        spl.transfer_checked(tx, vault_quote, quote, trader.destination, pool, received)
        spl.transfer_checked(tx, vault_quote, quote, self._fee_account, pool, protocol)
        spl.transfer_checked(tx, vault_quote, quote, self._creator_vault, pool, creator)
        numbers = _NUMBERS(
            tx.time_s,
            amount,
            min_out_raw,
            user_base,
            user_quote,
            pool_base,
            pool_quote,
            gross,
            self.fees.lp,
            lp,
            self.fees.protocol,
            protocol,
            gross - lp,
            received,
        )
        event = (
            _SELL_EVENT
            + numbers
            + pool
            + trader.authority
            + trader.source
            + trader.destination
            + FEE_RECIPIENT
            + self._fee_account
            + self.coin_creator
            + _TWO(self.fees.creator, creator)
            + bytes(32)  # cashback and buyback: basis points and amount
        )
        tx.emit_log(event)
        tx.emit_cpi(PUMP_SWAP, event)
        tx.leave(55_000)
        leg = self.leg(tx, place, trader, base, (amount, gross - lp), (amount, received))
        leg.fee_raw, leg.fee_mint = lp + protocol + creator, quote
        leg.reserves_raw = self.reserves()
        return received


def create_pool(
    tx: Execution,
    directory: Directory,
    pool: PumpSwapPool,
    creator: bytes,
    amounts: tuple[int, int],
) -> None:
    """Execute create_pool: vaults exist already, deposits come from the creator's accounts."""
    base, quote = pool.sides
    ledger = tx.ledger
    user_base, user_quote = ledger.associated(creator, base), ledger.associated(creator, quote)
    lp_mint = Mint(pool.lp_mint, 9, 0, TOKEN_2022, authority=pool.address)
    user_lp = ledger.associated(creator, lp_mint)
    accounts = (
        pool.address,
        GLOBAL_CONFIG,
        creator,
        base.address,
        quote.address,
        pool.lp_mint,
        user_base,
        user_quote,
        user_lp,
        *pool.vaults,
        SYSTEM.address,
        TOKEN_2022.address,
        base.program.address,
        quote.program.address,
        ASSOCIATED_TOKEN.address,
        PUMP_SWAP.event_authority,
        PUMP_SWAP.address,
    )
    args = bytes(2) + _TWO(*amounts) + pool.coin_creator + bytes(2)
    tx.enter(PUMP_SWAP, accounts, _CREATE_POOL + args, mask("w-w--wwwwww-------"))
    tx.log("Program log: Instruction: CreatePool")
    if ledger.lamports.get(pool.address):
        raise InstructionError(0, "Create Account: account already in use")
    spl.create_account(tx, creator, pool.address, 2_596_080, 245, PUMP_SWAP)
    spl.create_account(tx, creator, pool.lp_mint, 1_461_600, 82, TOKEN_2022)
    tx.enter(TOKEN_2022, (pool.lp_mint,), b"\x14\x09" + pool.address + b"\x00")
    tx.log("Program log: Instruction: InitializeMint2")
    tx.leave(1_225)
    ledger.mints[pool.lp_mint] = lp_mint
    tx.changes.undo.append(lambda: ledger.mints.pop(pool.lp_mint, None))
    spl.create_associated(tx, creator, creator, lp_mint, idempotent=False)
    spl.transfer_checked(tx, user_base, base, pool.vaults[0], creator, amounts[0])
    spl.transfer_checked(tx, user_quote, quote, pool.vaults[1], creator, amounts[1])
    liquidity = isqrt(amounts[0] * amounts[1])
    spl.mint_to(tx, lp_mint, user_lp, pool.address, liquidity - MINIMUM_LIQUIDITY)
    event = (
        _CREATE_EVENT
        + pack_u64(tx.time_s)
        + bytes(2)
        + creator
        + base.address
        + quote.address
        + bytes((base.decimals, quote.decimals))
        + Struct("<7Q").pack(
            *amounts,
            *amounts,
            MINIMUM_LIQUIDITY,
            liquidity,
            liquidity - MINIMUM_LIQUIDITY,
        )
        + bytes((pool.bump,))
        + pool.address
        + pool.lp_mint
        + user_base
        + user_quote
        + pool.coin_creator
        + b"\x00"
    )
    tx.emit_log(event)
    tx.emit_cpi(PUMP_SWAP, event)
    directory.open(tx, pool)
    tx.leave(60_000)
