from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Side(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SIDE_UNSPECIFIED: _ClassVar[Side]
    BUY: _ClassVar[Side]
    SELL: _ClassVar[Side]

class Commitment(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PROCESSED: _ClassVar[Commitment]
    CONFIRMED: _ClassVar[Commitment]
    FINALIZED: _ClassVar[Commitment]
SIDE_UNSPECIFIED: Side
BUY: Side
SELL: Side
PROCESSED: Commitment
CONFIRMED: Commitment
FINALIZED: Commitment

class Swap(_message.Message):
    __slots__ = ("signature", "slot", "tx_index", "event_index", "block_time_ms", "dex", "program_id", "pool", "wallet", "fee_payer", "mint", "quote_mint", "side", "amount_raw", "decimals", "quote_amount_raw", "quote_decimals", "wallet_amount_raw", "wallet_quote_amount_raw", "price", "price_sol", "price_usd", "sol_value", "usd_value", "pool_fee_raw", "pool_fee_mint", "fee_lamports", "priority_fee_lamports", "tip_lamports", "router", "platform", "commitment", "reserve_raw", "quote_reserve_raw", "liquidity", "sqrt_price_x64", "sol_value_lamports", "usd_value_micros", "virtual_reserve_raw", "virtual_quote_reserve_raw", "for_sale_raw", "migration_quote_raw", "keeper")
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    TX_INDEX_FIELD_NUMBER: _ClassVar[int]
    EVENT_INDEX_FIELD_NUMBER: _ClassVar[int]
    BLOCK_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    DEX_FIELD_NUMBER: _ClassVar[int]
    PROGRAM_ID_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    WALLET_FIELD_NUMBER: _ClassVar[int]
    FEE_PAYER_FIELD_NUMBER: _ClassVar[int]
    MINT_FIELD_NUMBER: _ClassVar[int]
    QUOTE_MINT_FIELD_NUMBER: _ClassVar[int]
    SIDE_FIELD_NUMBER: _ClassVar[int]
    AMOUNT_RAW_FIELD_NUMBER: _ClassVar[int]
    DECIMALS_FIELD_NUMBER: _ClassVar[int]
    QUOTE_AMOUNT_RAW_FIELD_NUMBER: _ClassVar[int]
    QUOTE_DECIMALS_FIELD_NUMBER: _ClassVar[int]
    WALLET_AMOUNT_RAW_FIELD_NUMBER: _ClassVar[int]
    WALLET_QUOTE_AMOUNT_RAW_FIELD_NUMBER: _ClassVar[int]
    PRICE_FIELD_NUMBER: _ClassVar[int]
    PRICE_SOL_FIELD_NUMBER: _ClassVar[int]
    PRICE_USD_FIELD_NUMBER: _ClassVar[int]
    SOL_VALUE_FIELD_NUMBER: _ClassVar[int]
    USD_VALUE_FIELD_NUMBER: _ClassVar[int]
    POOL_FEE_RAW_FIELD_NUMBER: _ClassVar[int]
    POOL_FEE_MINT_FIELD_NUMBER: _ClassVar[int]
    FEE_LAMPORTS_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FEE_LAMPORTS_FIELD_NUMBER: _ClassVar[int]
    TIP_LAMPORTS_FIELD_NUMBER: _ClassVar[int]
    ROUTER_FIELD_NUMBER: _ClassVar[int]
    PLATFORM_FIELD_NUMBER: _ClassVar[int]
    COMMITMENT_FIELD_NUMBER: _ClassVar[int]
    RESERVE_RAW_FIELD_NUMBER: _ClassVar[int]
    QUOTE_RESERVE_RAW_FIELD_NUMBER: _ClassVar[int]
    LIQUIDITY_FIELD_NUMBER: _ClassVar[int]
    SQRT_PRICE_X64_FIELD_NUMBER: _ClassVar[int]
    SOL_VALUE_LAMPORTS_FIELD_NUMBER: _ClassVar[int]
    USD_VALUE_MICROS_FIELD_NUMBER: _ClassVar[int]
    VIRTUAL_RESERVE_RAW_FIELD_NUMBER: _ClassVar[int]
    VIRTUAL_QUOTE_RESERVE_RAW_FIELD_NUMBER: _ClassVar[int]
    FOR_SALE_RAW_FIELD_NUMBER: _ClassVar[int]
    MIGRATION_QUOTE_RAW_FIELD_NUMBER: _ClassVar[int]
    KEEPER_FIELD_NUMBER: _ClassVar[int]
    signature: str
    slot: int
    tx_index: int
    event_index: int
    block_time_ms: int
    dex: str
    program_id: str
    pool: str
    wallet: str
    fee_payer: str
    mint: str
    quote_mint: str
    side: Side
    amount_raw: int
    decimals: int
    quote_amount_raw: int
    quote_decimals: int
    wallet_amount_raw: int
    wallet_quote_amount_raw: int
    price: float
    price_sol: float
    price_usd: float
    sol_value: float
    usd_value: float
    pool_fee_raw: int
    pool_fee_mint: str
    fee_lamports: int
    priority_fee_lamports: int
    tip_lamports: int
    router: str
    platform: str
    commitment: Commitment
    reserve_raw: int
    quote_reserve_raw: int
    liquidity: str
    sqrt_price_x64: str
    sol_value_lamports: int
    usd_value_micros: int
    virtual_reserve_raw: int
    virtual_quote_reserve_raw: int
    for_sale_raw: int
    migration_quote_raw: int
    keeper: str
    def __init__(self, signature: _Optional[str] = ..., slot: _Optional[int] = ..., tx_index: _Optional[int] = ..., event_index: _Optional[int] = ..., block_time_ms: _Optional[int] = ..., dex: _Optional[str] = ..., program_id: _Optional[str] = ..., pool: _Optional[str] = ..., wallet: _Optional[str] = ..., fee_payer: _Optional[str] = ..., mint: _Optional[str] = ..., quote_mint: _Optional[str] = ..., side: _Optional[_Union[Side, str]] = ..., amount_raw: _Optional[int] = ..., decimals: _Optional[int] = ..., quote_amount_raw: _Optional[int] = ..., quote_decimals: _Optional[int] = ..., wallet_amount_raw: _Optional[int] = ..., wallet_quote_amount_raw: _Optional[int] = ..., price: _Optional[float] = ..., price_sol: _Optional[float] = ..., price_usd: _Optional[float] = ..., sol_value: _Optional[float] = ..., usd_value: _Optional[float] = ..., pool_fee_raw: _Optional[int] = ..., pool_fee_mint: _Optional[str] = ..., fee_lamports: _Optional[int] = ..., priority_fee_lamports: _Optional[int] = ..., tip_lamports: _Optional[int] = ..., router: _Optional[str] = ..., platform: _Optional[str] = ..., commitment: _Optional[_Union[Commitment, str]] = ..., reserve_raw: _Optional[int] = ..., quote_reserve_raw: _Optional[int] = ..., liquidity: _Optional[str] = ..., sqrt_price_x64: _Optional[str] = ..., sol_value_lamports: _Optional[int] = ..., usd_value_micros: _Optional[int] = ..., virtual_reserve_raw: _Optional[int] = ..., virtual_quote_reserve_raw: _Optional[int] = ..., for_sale_raw: _Optional[int] = ..., migration_quote_raw: _Optional[int] = ..., keeper: _Optional[str] = ...) -> None: ...

class Creation(_message.Message):
    __slots__ = ("signature", "slot", "tx_index", "event_index", "block_time_ms", "mint", "name", "symbol", "uri", "creator", "platform", "dex", "pool", "quote_mint", "decimals", "supply_raw", "token_program", "commitment")
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    TX_INDEX_FIELD_NUMBER: _ClassVar[int]
    EVENT_INDEX_FIELD_NUMBER: _ClassVar[int]
    BLOCK_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    MINT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SYMBOL_FIELD_NUMBER: _ClassVar[int]
    URI_FIELD_NUMBER: _ClassVar[int]
    CREATOR_FIELD_NUMBER: _ClassVar[int]
    PLATFORM_FIELD_NUMBER: _ClassVar[int]
    DEX_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    QUOTE_MINT_FIELD_NUMBER: _ClassVar[int]
    DECIMALS_FIELD_NUMBER: _ClassVar[int]
    SUPPLY_RAW_FIELD_NUMBER: _ClassVar[int]
    TOKEN_PROGRAM_FIELD_NUMBER: _ClassVar[int]
    COMMITMENT_FIELD_NUMBER: _ClassVar[int]
    signature: str
    slot: int
    tx_index: int
    event_index: int
    block_time_ms: int
    mint: str
    name: str
    symbol: str
    uri: str
    creator: str
    platform: str
    dex: str
    pool: str
    quote_mint: str
    decimals: int
    supply_raw: int
    token_program: str
    commitment: Commitment
    def __init__(self, signature: _Optional[str] = ..., slot: _Optional[int] = ..., tx_index: _Optional[int] = ..., event_index: _Optional[int] = ..., block_time_ms: _Optional[int] = ..., mint: _Optional[str] = ..., name: _Optional[str] = ..., symbol: _Optional[str] = ..., uri: _Optional[str] = ..., creator: _Optional[str] = ..., platform: _Optional[str] = ..., dex: _Optional[str] = ..., pool: _Optional[str] = ..., quote_mint: _Optional[str] = ..., decimals: _Optional[int] = ..., supply_raw: _Optional[int] = ..., token_program: _Optional[str] = ..., commitment: _Optional[_Union[Commitment, str]] = ...) -> None: ...

class Migration(_message.Message):
    __slots__ = ("signature", "slot", "tx_index", "event_index", "block_time_ms", "mint", "platform", "from_dex", "from_pool", "dex", "pool", "quote_mint", "amount_raw", "quote_amount_raw", "commitment")
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    TX_INDEX_FIELD_NUMBER: _ClassVar[int]
    EVENT_INDEX_FIELD_NUMBER: _ClassVar[int]
    BLOCK_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    MINT_FIELD_NUMBER: _ClassVar[int]
    PLATFORM_FIELD_NUMBER: _ClassVar[int]
    FROM_DEX_FIELD_NUMBER: _ClassVar[int]
    FROM_POOL_FIELD_NUMBER: _ClassVar[int]
    DEX_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    QUOTE_MINT_FIELD_NUMBER: _ClassVar[int]
    AMOUNT_RAW_FIELD_NUMBER: _ClassVar[int]
    QUOTE_AMOUNT_RAW_FIELD_NUMBER: _ClassVar[int]
    COMMITMENT_FIELD_NUMBER: _ClassVar[int]
    signature: str
    slot: int
    tx_index: int
    event_index: int
    block_time_ms: int
    mint: str
    platform: str
    from_dex: str
    from_pool: str
    dex: str
    pool: str
    quote_mint: str
    amount_raw: int
    quote_amount_raw: int
    commitment: Commitment
    def __init__(self, signature: _Optional[str] = ..., slot: _Optional[int] = ..., tx_index: _Optional[int] = ..., event_index: _Optional[int] = ..., block_time_ms: _Optional[int] = ..., mint: _Optional[str] = ..., platform: _Optional[str] = ..., from_dex: _Optional[str] = ..., from_pool: _Optional[str] = ..., dex: _Optional[str] = ..., pool: _Optional[str] = ..., quote_mint: _Optional[str] = ..., amount_raw: _Optional[int] = ..., quote_amount_raw: _Optional[int] = ..., commitment: _Optional[_Union[Commitment, str]] = ...) -> None: ...

class PriceUpdate(_message.Message):
    __slots__ = ("mint", "price_sol", "price_usd", "timestamp", "slot", "pool")
    MINT_FIELD_NUMBER: _ClassVar[int]
    PRICE_SOL_FIELD_NUMBER: _ClassVar[int]
    PRICE_USD_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    mint: str
    price_sol: float
    price_usd: float
    timestamp: int
    slot: int
    pool: str
    def __init__(self, mint: _Optional[str] = ..., price_sol: _Optional[float] = ..., price_usd: _Optional[float] = ..., timestamp: _Optional[int] = ..., slot: _Optional[int] = ..., pool: _Optional[str] = ...) -> None: ...

class Outcomes(_message.Message):
    __slots__ = ("decoded", "unknown", "malformed")
    DECODED_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    MALFORMED_FIELD_NUMBER: _ClassVar[int]
    decoded: int
    unknown: int
    malformed: int
    def __init__(self, decoded: _Optional[int] = ..., unknown: _Optional[int] = ..., malformed: _Optional[int] = ...) -> None: ...

class VenueOutcomes(_message.Message):
    __slots__ = ("dex", "outcomes", "swaps")
    DEX_FIELD_NUMBER: _ClassVar[int]
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    SWAPS_FIELD_NUMBER: _ClassVar[int]
    dex: str
    outcomes: Outcomes
    swaps: int
    def __init__(self, dex: _Optional[str] = ..., outcomes: _Optional[_Union[Outcomes, _Mapping]] = ..., swaps: _Optional[int] = ...) -> None: ...

class SlotStatus(_message.Message):
    __slots__ = ("slot", "parent", "status", "block_time_ms", "transactions", "events", "outcomes")
    class Status(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        PROCESSED: _ClassVar[SlotStatus.Status]
        CONFIRMED: _ClassVar[SlotStatus.Status]
        FINALIZED: _ClassVar[SlotStatus.Status]
        ORPHANED: _ClassVar[SlotStatus.Status]
    PROCESSED: SlotStatus.Status
    CONFIRMED: SlotStatus.Status
    FINALIZED: SlotStatus.Status
    ORPHANED: SlotStatus.Status
    SLOT_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    BLOCK_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    TRANSACTIONS_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    slot: int
    parent: int
    status: SlotStatus.Status
    block_time_ms: int
    transactions: int
    events: int
    outcomes: Outcomes
    def __init__(self, slot: _Optional[int] = ..., parent: _Optional[int] = ..., status: _Optional[_Union[SlotStatus.Status, str]] = ..., block_time_ms: _Optional[int] = ..., transactions: _Optional[int] = ..., events: _Optional[int] = ..., outcomes: _Optional[_Union[Outcomes, _Mapping]] = ...) -> None: ...

class SlotGap(_message.Message):
    __slots__ = ("first_slot", "last_slot", "reason", "detected_ms", "wallets", "lost_by")
    FIRST_SLOT_FIELD_NUMBER: _ClassVar[int]
    LAST_SLOT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    DETECTED_MS_FIELD_NUMBER: _ClassVar[int]
    WALLETS_FIELD_NUMBER: _ClassVar[int]
    LOST_BY_FIELD_NUMBER: _ClassVar[int]
    first_slot: int
    last_slot: int
    reason: str
    detected_ms: int
    wallets: _containers.RepeatedScalarFieldContainer[str]
    lost_by: str
    def __init__(self, first_slot: _Optional[int] = ..., last_slot: _Optional[int] = ..., reason: _Optional[str] = ..., detected_ms: _Optional[int] = ..., wallets: _Optional[_Iterable[str]] = ..., lost_by: _Optional[str] = ...) -> None: ...

class TapeEvent(_message.Message):
    __slots__ = ("swap", "creation", "migration", "slot_status", "slot_gap")
    SWAP_FIELD_NUMBER: _ClassVar[int]
    CREATION_FIELD_NUMBER: _ClassVar[int]
    MIGRATION_FIELD_NUMBER: _ClassVar[int]
    SLOT_STATUS_FIELD_NUMBER: _ClassVar[int]
    SLOT_GAP_FIELD_NUMBER: _ClassVar[int]
    swap: Swap
    creation: Creation
    migration: Migration
    slot_status: SlotStatus
    slot_gap: SlotGap
    def __init__(self, swap: _Optional[_Union[Swap, _Mapping]] = ..., creation: _Optional[_Union[Creation, _Mapping]] = ..., migration: _Optional[_Union[Migration, _Mapping]] = ..., slot_status: _Optional[_Union[SlotStatus, _Mapping]] = ..., slot_gap: _Optional[_Union[SlotGap, _Mapping]] = ...) -> None: ...

class LiveBatch(_message.Message):
    __slots__ = ("events", "sent_ms", "sol_usd", "genesis_hash")
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    SENT_MS_FIELD_NUMBER: _ClassVar[int]
    SOL_USD_FIELD_NUMBER: _ClassVar[int]
    GENESIS_HASH_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[TapeEvent]
    sent_ms: int
    sol_usd: str
    genesis_hash: str
    def __init__(self, events: _Optional[_Iterable[_Union[TapeEvent, _Mapping]]] = ..., sent_ms: _Optional[int] = ..., sol_usd: _Optional[str] = ..., genesis_hash: _Optional[str] = ...) -> None: ...

class TokenBalance(_message.Message):
    __slots__ = ("account", "owner", "mint", "decimals", "amount_raw", "is_vault", "is_token_2022", "tx_index")
    ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    MINT_FIELD_NUMBER: _ClassVar[int]
    DECIMALS_FIELD_NUMBER: _ClassVar[int]
    AMOUNT_RAW_FIELD_NUMBER: _ClassVar[int]
    IS_VAULT_FIELD_NUMBER: _ClassVar[int]
    IS_TOKEN_2022_FIELD_NUMBER: _ClassVar[int]
    TX_INDEX_FIELD_NUMBER: _ClassVar[int]
    account: bytes
    owner: str
    mint: str
    decimals: int
    amount_raw: int
    is_vault: bool
    is_token_2022: bool
    tx_index: int
    def __init__(self, account: _Optional[bytes] = ..., owner: _Optional[str] = ..., mint: _Optional[str] = ..., decimals: _Optional[int] = ..., amount_raw: _Optional[int] = ..., is_vault: _Optional[bool] = ..., is_token_2022: _Optional[bool] = ..., tx_index: _Optional[int] = ...) -> None: ...

class Movement(_message.Message):
    __slots__ = ("signature", "tx_index", "wallet", "mint", "decimals", "received_raw", "sent_raw", "burned_raw")
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    TX_INDEX_FIELD_NUMBER: _ClassVar[int]
    WALLET_FIELD_NUMBER: _ClassVar[int]
    MINT_FIELD_NUMBER: _ClassVar[int]
    DECIMALS_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_RAW_FIELD_NUMBER: _ClassVar[int]
    SENT_RAW_FIELD_NUMBER: _ClassVar[int]
    BURNED_RAW_FIELD_NUMBER: _ClassVar[int]
    signature: str
    tx_index: int
    wallet: str
    mint: str
    decimals: int
    received_raw: int
    sent_raw: int
    burned_raw: int
    def __init__(self, signature: _Optional[str] = ..., tx_index: _Optional[int] = ..., wallet: _Optional[str] = ..., mint: _Optional[str] = ..., decimals: _Optional[int] = ..., received_raw: _Optional[int] = ..., sent_raw: _Optional[int] = ..., burned_raw: _Optional[int] = ...) -> None: ...

class QuotePrice(_message.Message):
    __slots__ = ("mint", "lamports", "amount_raw")
    MINT_FIELD_NUMBER: _ClassVar[int]
    LAMPORTS_FIELD_NUMBER: _ClassVar[int]
    AMOUNT_RAW_FIELD_NUMBER: _ClassVar[int]
    mint: str
    lamports: int
    amount_raw: int
    def __init__(self, mint: _Optional[str] = ..., lamports: _Optional[int] = ..., amount_raw: _Optional[int] = ...) -> None: ...

class SlotBatch(_message.Message):
    __slots__ = ("slot", "parent", "blockhash", "block_time_ms", "events", "outcomes", "sol_usd", "complete", "transactions", "balances", "movements", "quotes", "venues", "accounts", "covered", "funding_payments", "perp_changes", "perp_gaps", "perp_dexes")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    BLOCKHASH_FIELD_NUMBER: _ClassVar[int]
    BLOCK_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    SOL_USD_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    TRANSACTIONS_FIELD_NUMBER: _ClassVar[int]
    BALANCES_FIELD_NUMBER: _ClassVar[int]
    MOVEMENTS_FIELD_NUMBER: _ClassVar[int]
    QUOTES_FIELD_NUMBER: _ClassVar[int]
    VENUES_FIELD_NUMBER: _ClassVar[int]
    ACCOUNTS_FIELD_NUMBER: _ClassVar[int]
    COVERED_FIELD_NUMBER: _ClassVar[int]
    FUNDING_PAYMENTS_FIELD_NUMBER: _ClassVar[int]
    PERP_CHANGES_FIELD_NUMBER: _ClassVar[int]
    PERP_GAPS_FIELD_NUMBER: _ClassVar[int]
    PERP_DEXES_FIELD_NUMBER: _ClassVar[int]
    slot: int
    parent: int
    blockhash: str
    block_time_ms: int
    events: _containers.RepeatedCompositeFieldContainer[TapeEvent]
    outcomes: Outcomes
    sol_usd: str
    complete: bool
    transactions: int
    balances: _containers.RepeatedCompositeFieldContainer[TokenBalance]
    movements: _containers.RepeatedCompositeFieldContainer[Movement]
    quotes: _containers.RepeatedCompositeFieldContainer[QuotePrice]
    venues: _containers.RepeatedCompositeFieldContainer[VenueOutcomes]
    accounts: _containers.RepeatedCompositeFieldContainer[AccountVersion]
    covered: _containers.RepeatedCompositeFieldContainer[Covered]
    funding_payments: _containers.RepeatedCompositeFieldContainer[FundingPayment]
    perp_changes: _containers.RepeatedCompositeFieldContainer[PerpChange]
    perp_gaps: _containers.RepeatedCompositeFieldContainer[PerpGap]
    perp_dexes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, slot: _Optional[int] = ..., parent: _Optional[int] = ..., blockhash: _Optional[str] = ..., block_time_ms: _Optional[int] = ..., events: _Optional[_Iterable[_Union[TapeEvent, _Mapping]]] = ..., outcomes: _Optional[_Union[Outcomes, _Mapping]] = ..., sol_usd: _Optional[str] = ..., complete: _Optional[bool] = ..., transactions: _Optional[int] = ..., balances: _Optional[_Iterable[_Union[TokenBalance, _Mapping]]] = ..., movements: _Optional[_Iterable[_Union[Movement, _Mapping]]] = ..., quotes: _Optional[_Iterable[_Union[QuotePrice, _Mapping]]] = ..., venues: _Optional[_Iterable[_Union[VenueOutcomes, _Mapping]]] = ..., accounts: _Optional[_Iterable[_Union[AccountVersion, _Mapping]]] = ..., covered: _Optional[_Iterable[_Union[Covered, _Mapping]]] = ..., funding_payments: _Optional[_Iterable[_Union[FundingPayment, _Mapping]]] = ..., perp_changes: _Optional[_Iterable[_Union[PerpChange, _Mapping]]] = ..., perp_gaps: _Optional[_Iterable[_Union[PerpGap, _Mapping]]] = ..., perp_dexes: _Optional[_Iterable[str]] = ...) -> None: ...

class FundingPayment(_message.Message):
    __slots__ = ("signature", "slot", "tx_index", "event_index", "log_index", "block_time_ms", "dex", "program_id", "wallet", "account", "market_index", "payment_raw", "base_raw", "last_cumulative_funding", "cumulative_funding_long", "cumulative_funding_short")
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    TX_INDEX_FIELD_NUMBER: _ClassVar[int]
    EVENT_INDEX_FIELD_NUMBER: _ClassVar[int]
    LOG_INDEX_FIELD_NUMBER: _ClassVar[int]
    BLOCK_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    DEX_FIELD_NUMBER: _ClassVar[int]
    PROGRAM_ID_FIELD_NUMBER: _ClassVar[int]
    WALLET_FIELD_NUMBER: _ClassVar[int]
    ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    MARKET_INDEX_FIELD_NUMBER: _ClassVar[int]
    PAYMENT_RAW_FIELD_NUMBER: _ClassVar[int]
    BASE_RAW_FIELD_NUMBER: _ClassVar[int]
    LAST_CUMULATIVE_FUNDING_FIELD_NUMBER: _ClassVar[int]
    CUMULATIVE_FUNDING_LONG_FIELD_NUMBER: _ClassVar[int]
    CUMULATIVE_FUNDING_SHORT_FIELD_NUMBER: _ClassVar[int]
    signature: str
    slot: int
    tx_index: int
    event_index: int
    log_index: int
    block_time_ms: int
    dex: str
    program_id: str
    wallet: str
    account: str
    market_index: int
    payment_raw: int
    base_raw: int
    last_cumulative_funding: int
    cumulative_funding_long: str
    cumulative_funding_short: str
    def __init__(self, signature: _Optional[str] = ..., slot: _Optional[int] = ..., tx_index: _Optional[int] = ..., event_index: _Optional[int] = ..., log_index: _Optional[int] = ..., block_time_ms: _Optional[int] = ..., dex: _Optional[str] = ..., program_id: _Optional[str] = ..., wallet: _Optional[str] = ..., account: _Optional[str] = ..., market_index: _Optional[int] = ..., payment_raw: _Optional[int] = ..., base_raw: _Optional[int] = ..., last_cumulative_funding: _Optional[int] = ..., cumulative_funding_long: _Optional[str] = ..., cumulative_funding_short: _Optional[str] = ...) -> None: ...

class PerpChange(_message.Message):
    __slots__ = ("signature", "slot", "tx_index", "event_index", "block_time_ms", "dex", "program_id", "wallet", "position", "pool", "custody", "collateral_custody", "mint", "is_long", "change", "is_instant", "size_usd_micros", "size_delta_usd_micros", "collateral_delta_usd_micros", "price_usd_micros", "pnl_usd_micros", "fee_usd_micros", "position_fee_usd_micros", "funding_fee_usd_micros", "price_impact_fee_usd_micros", "liquidation_fee_usd_micros", "paid_out_usd_micros", "collateral_usd_micros", "entry_price_usd_micros")
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    TX_INDEX_FIELD_NUMBER: _ClassVar[int]
    EVENT_INDEX_FIELD_NUMBER: _ClassVar[int]
    BLOCK_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    DEX_FIELD_NUMBER: _ClassVar[int]
    PROGRAM_ID_FIELD_NUMBER: _ClassVar[int]
    WALLET_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    CUSTODY_FIELD_NUMBER: _ClassVar[int]
    COLLATERAL_CUSTODY_FIELD_NUMBER: _ClassVar[int]
    MINT_FIELD_NUMBER: _ClassVar[int]
    IS_LONG_FIELD_NUMBER: _ClassVar[int]
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    IS_INSTANT_FIELD_NUMBER: _ClassVar[int]
    SIZE_USD_MICROS_FIELD_NUMBER: _ClassVar[int]
    SIZE_DELTA_USD_MICROS_FIELD_NUMBER: _ClassVar[int]
    COLLATERAL_DELTA_USD_MICROS_FIELD_NUMBER: _ClassVar[int]
    PRICE_USD_MICROS_FIELD_NUMBER: _ClassVar[int]
    PNL_USD_MICROS_FIELD_NUMBER: _ClassVar[int]
    FEE_USD_MICROS_FIELD_NUMBER: _ClassVar[int]
    POSITION_FEE_USD_MICROS_FIELD_NUMBER: _ClassVar[int]
    FUNDING_FEE_USD_MICROS_FIELD_NUMBER: _ClassVar[int]
    PRICE_IMPACT_FEE_USD_MICROS_FIELD_NUMBER: _ClassVar[int]
    LIQUIDATION_FEE_USD_MICROS_FIELD_NUMBER: _ClassVar[int]
    PAID_OUT_USD_MICROS_FIELD_NUMBER: _ClassVar[int]
    COLLATERAL_USD_MICROS_FIELD_NUMBER: _ClassVar[int]
    ENTRY_PRICE_USD_MICROS_FIELD_NUMBER: _ClassVar[int]
    signature: str
    slot: int
    tx_index: int
    event_index: int
    block_time_ms: int
    dex: str
    program_id: str
    wallet: str
    position: str
    pool: str
    custody: str
    collateral_custody: str
    mint: str
    is_long: bool
    change: str
    is_instant: bool
    size_usd_micros: int
    size_delta_usd_micros: int
    collateral_delta_usd_micros: int
    price_usd_micros: int
    pnl_usd_micros: int
    fee_usd_micros: int
    position_fee_usd_micros: int
    funding_fee_usd_micros: int
    price_impact_fee_usd_micros: int
    liquidation_fee_usd_micros: int
    paid_out_usd_micros: int
    collateral_usd_micros: int
    entry_price_usd_micros: int
    def __init__(self, signature: _Optional[str] = ..., slot: _Optional[int] = ..., tx_index: _Optional[int] = ..., event_index: _Optional[int] = ..., block_time_ms: _Optional[int] = ..., dex: _Optional[str] = ..., program_id: _Optional[str] = ..., wallet: _Optional[str] = ..., position: _Optional[str] = ..., pool: _Optional[str] = ..., custody: _Optional[str] = ..., collateral_custody: _Optional[str] = ..., mint: _Optional[str] = ..., is_long: _Optional[bool] = ..., change: _Optional[str] = ..., is_instant: _Optional[bool] = ..., size_usd_micros: _Optional[int] = ..., size_delta_usd_micros: _Optional[int] = ..., collateral_delta_usd_micros: _Optional[int] = ..., price_usd_micros: _Optional[int] = ..., pnl_usd_micros: _Optional[int] = ..., fee_usd_micros: _Optional[int] = ..., position_fee_usd_micros: _Optional[int] = ..., funding_fee_usd_micros: _Optional[int] = ..., price_impact_fee_usd_micros: _Optional[int] = ..., liquidation_fee_usd_micros: _Optional[int] = ..., paid_out_usd_micros: _Optional[int] = ..., collateral_usd_micros: _Optional[int] = ..., entry_price_usd_micros: _Optional[int] = ...) -> None: ...

class PerpGap(_message.Message):
    __slots__ = ("signature", "slot", "tx_index", "event_index", "block_time_ms", "dex", "reason", "wallet")
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    TX_INDEX_FIELD_NUMBER: _ClassVar[int]
    EVENT_INDEX_FIELD_NUMBER: _ClassVar[int]
    BLOCK_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    DEX_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    WALLET_FIELD_NUMBER: _ClassVar[int]
    signature: str
    slot: int
    tx_index: int
    event_index: int
    block_time_ms: int
    dex: str
    reason: str
    wallet: str
    def __init__(self, signature: _Optional[str] = ..., slot: _Optional[int] = ..., tx_index: _Optional[int] = ..., event_index: _Optional[int] = ..., block_time_ms: _Optional[int] = ..., dex: _Optional[str] = ..., reason: _Optional[str] = ..., wallet: _Optional[str] = ...) -> None: ...

class AccountVersion(_message.Message):
    __slots__ = ("address", "program", "lamports", "size", "data", "found_by", "closed", "asked_slot")
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    PROGRAM_FIELD_NUMBER: _ClassVar[int]
    LAMPORTS_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    FOUND_BY_FIELD_NUMBER: _ClassVar[int]
    CLOSED_FIELD_NUMBER: _ClassVar[int]
    ASKED_SLOT_FIELD_NUMBER: _ClassVar[int]
    address: bytes
    program: bytes
    lamports: int
    size: int
    data: bytes
    found_by: _containers.RepeatedScalarFieldContainer[bytes]
    closed: bool
    asked_slot: int
    def __init__(self, address: _Optional[bytes] = ..., program: _Optional[bytes] = ..., lamports: _Optional[int] = ..., size: _Optional[int] = ..., data: _Optional[bytes] = ..., found_by: _Optional[_Iterable[bytes]] = ..., closed: _Optional[bool] = ..., asked_slot: _Optional[int] = ...) -> None: ...

class Covered(_message.Message):
    __slots__ = ("kind", "address", "slot", "reason", "accounts", "least_raw")
    class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        PROGRAM: _ClassVar[Covered.Kind]
        WALLET: _ClassVar[Covered.Kind]
        MINT: _ClassVar[Covered.Kind]
        HOLDERS: _ClassVar[Covered.Kind]
        ACCOUNT: _ClassVar[Covered.Kind]
        ALL: _ClassVar[Covered.Kind]
    PROGRAM: Covered.Kind
    WALLET: Covered.Kind
    MINT: Covered.Kind
    HOLDERS: Covered.Kind
    ACCOUNT: Covered.Kind
    ALL: Covered.Kind
    KIND_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ACCOUNTS_FIELD_NUMBER: _ClassVar[int]
    LEAST_RAW_FIELD_NUMBER: _ClassVar[int]
    kind: Covered.Kind
    address: bytes
    slot: int
    reason: str
    accounts: _containers.RepeatedScalarFieldContainer[bytes]
    least_raw: int
    def __init__(self, kind: _Optional[_Union[Covered.Kind, str]] = ..., address: _Optional[bytes] = ..., slot: _Optional[int] = ..., reason: _Optional[str] = ..., accounts: _Optional[_Iterable[bytes]] = ..., least_raw: _Optional[int] = ...) -> None: ...

class Undecoded(_message.Message):
    __slots__ = ("slot", "signature", "program_id", "dex", "event_index", "reason", "detail", "data")
    class Reason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNKNOWN: _ClassVar[Undecoded.Reason]
        MALFORMED: _ClassVar[Undecoded.Reason]
    UNKNOWN: Undecoded.Reason
    MALFORMED: Undecoded.Reason
    SLOT_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    PROGRAM_ID_FIELD_NUMBER: _ClassVar[int]
    DEX_FIELD_NUMBER: _ClassVar[int]
    EVENT_INDEX_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    slot: int
    signature: str
    program_id: str
    dex: str
    event_index: int
    reason: Undecoded.Reason
    detail: str
    data: bytes
    def __init__(self, slot: _Optional[int] = ..., signature: _Optional[str] = ..., program_id: _Optional[str] = ..., dex: _Optional[str] = ..., event_index: _Optional[int] = ..., reason: _Optional[_Union[Undecoded.Reason, str]] = ..., detail: _Optional[str] = ..., data: _Optional[bytes] = ...) -> None: ...
