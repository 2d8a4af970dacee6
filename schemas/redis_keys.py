"""Every key in Redis: its name, type, owner, how long it stays.

`{m3}` and `{w3}` in a key are Redis Cluster hash tags: the place (`schemas.topics`) of the
partition, by mint or by wallet, that the key's facts were computed from. All keys of one partition
live on one node, so that they and the partition's watermark are written in one MULTI. `mint_tag`
and `wallet_tag` give a reader the place to look. `{live}` is the tag of all that agent `live`
writes: streams, fence and last prices move together, and one read of all streams is of one node.
Raw 32-byte addresses, not base58, stand where a key or a field says `raw`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from schemas.times import DAY_S, HOUR_S
from schemas.topics import SETTLED_ACCOUNTS, SETTLED_BY_MINT, SETTLED_BY_WALLET, Topic


@dataclass(frozen=True, slots=True)
class Key:
    """A kind of key; `make(...)` fills in its name."""

    pattern: str  # for str.format; {tag} becomes the hash tag with its braces, {{live}} is one
    type: Literal["string", "hash", "zset", "set", "list", "stream"]
    owner: str  # the agent group that writes it; everybody else reads
    ttl_s: int | None
    about: str

    def make(self, **parts: object) -> str:
        """Return the name of one key."""
        return self.pattern.format(**parts)


def mint_tag(mint: str) -> str:
    """Return the hash tag of what is kept by mint."""
    return tag_of_mints(SETTLED_BY_MINT.partition(mint))


def wallet_tag(wallet: str) -> str:
    """Return the hash tag of what is kept by wallet."""
    return tag_of_wallets(SETTLED_BY_WALLET.partition(wallet))


def account_tag(address: str) -> str:
    """Return the hash tag of what is kept by account."""
    return _ACCOUNT_TAGS[SETTLED_ACCOUNTS.partition(address)]


def account_tags() -> list[str]:
    """Return the hash tags of all partitions of the lane of accounts, ascending."""
    return [*_ACCOUNT_TAGS]


def tag_of_key(fingerprint: str) -> str:
    """Return the hash tag of what is kept of an API key or a user, known by a SHA-256 in hex."""
    return f"{{{fingerprint}}}"


def tag_of_month(month: str) -> str:
    """Return the hash tag of what is kept of a month (2026-11)."""
    return f"{{{month}}}"


def tag_of_mints(partition: int) -> str:
    """Return the hash tag of a partition by mint."""
    return tag_of_partition(SETTLED_BY_MINT, partition)


def tag_of_wallets(partition: int) -> str:
    """Return the hash tag of a partition by wallet."""
    return tag_of_partition(SETTLED_BY_WALLET, partition)


def tag_of_partition(lane: Topic, partition: int) -> str:
    """Return the hash tag of a partition of a settled lane."""
    return f"{{{lane.key[0]}{lane.place(partition)}}}"


_ACCOUNT_TAGS: Final = tuple(  # this lane's count never changes, and a request needs hundreds
    tag_of_partition(SETTLED_ACCOUNTS, partition)
    for partition in range(SETTLED_ACCOUNTS.partitions)
)


def mint_tags() -> list[str]:
    """Return the hash tags of all partitions by mint, ascending."""
    return [tag_of_mints(partition) for partition in range(SETTLED_BY_MINT.partitions)]


def wallet_tags() -> list[str]:
    """Return the hash tags of all partitions by wallet, ascending."""
    return [tag_of_wallets(partition) for partition in range(SETTLED_BY_WALLET.partitions)]


# Progress of the agents on the settled lanes.

SETTLED_PARTITIONS: Final = Key(
    "settled:partitions",
    "string",
    "agents",
    None,
    "how many partitions the settled lanes have whose books are here",
)

WATERMARK: Final = Key(
    "wm:{tag}:{group}",
    "hash",
    "each settled group",
    None,
    "slot: the last applied; time_ms: its block; offset: the last message; at_ms: when written; "
    "begun: when the books were opened for the first time, ms; taken_by, checkpoint: who takes "
    "one, and the slot of the last; filled_by: which `soltape rebuild` fills them, or did last",
)

CHANGED: Final = Key(
    "changed:{tag}:{group}",
    "set",
    "each settled group",
    None,
    "what changed since the last checkpoint: type, key and field; one empty member, without which "
    "the next checkpoint has all of the partition",
)
CHECKPOINTING: Final = Key(
    "changed:{tag}:{group}:taken",
    "set",
    "each settled group",
    None,
    "what the checkpoint under way writes; gone when it is in ClickHouse",
)
QUARANTINE: Final = Key(
    "quarantine:{tag}:{group}",
    "hash",
    "each settled group",
    None,
    "wallet or mint with a stored value that cannot be read -> JSON: slot, the first that is not "
    "applied to it; place, where the value is; cause; `soltape rebuild` removes it",
)

# Prices and live frames (agent `live`). `schemas.channels` has what is in the streams; the oldest
# of each goes as new comes.

PRICE: Final = Key(
    "{{live}}:price:{mint}",
    "hash",
    "live",
    3 * DAY_S,
    "price_sol, price_usd, time_ms, slot, pool, closes: `schemas.prices`; state, decimals, symbol, "
    "platform: the writer's own",
)
LIVE_SWAPS: Final = Key(
    "{{live}}:swaps", "stream", "live", None, "every swap; LIVE_STREAM_MIB of it"
)
LIVE_CREATIONS: Final = Key(
    "{{live}}:creations", "stream", "live", None, "every token creation; LIVE_STREAM_MIB of it"
)
LIVE_PRICES: Final = Key(
    "{{live}}:prices", "stream", "live", None, "prices that have changed; LIVE_STREAM_MIB of it"
)
LIVE_STATUS: Final = Key(
    "{{live}}:status",
    "stream",
    "live",
    None,
    "what became of slots, and gaps; LIVE_STREAM_MIB of it",
)
LIVE_TRENDING: Final = Key(
    "{{live}}:trending",
    "stream",
    "market",
    None,
    "tokens of the trending list that have changed, or left it; 2,000 entries",
)
LIVE_POSITIONS: Final = Key(
    "{{live}}:positions",
    "stream",
    "watch",
    None,
    "alerts of positions: health fell, a range was left, a lock ended; 10,000 entries",
)
LIVE_EPOCH: Final = Key(
    "{{live}}:epoch",
    "string",
    "live",
    None,
    "changes whenever the live streams may have a hole",
)
LIVE_FENCE: Final = Key(
    "{{live}}:fence",
    "hash",
    "live",
    None,
    "partition of tape-live: offset and sent_ms of the last batch whose frames are in the streams",
)
LIVE_PRICES_WRITTEN: Final = Key(
    "{{live}}:prices:written:{writer}",
    "string",
    "live",
    HOUR_S,
    "number of the last batch of prices of a writer, one that runs now, that is in the stream",
)
VOCABULARY: Final = Key(
    "{{live}}:vocabulary",
    "string",
    "live",
    None,
    "slugs of the venues and launch platforms there are: `schemas.vocabulary`",
)
CHAIN: Final = Key(
    "{{live}}:chain",
    "string",
    "live",
    None,
    "genesis hash of the chain that the live streams are of, as ingest asked for it: "
    "`schemas.solana.networks`; no key while it is unknown",
)
BROKER_DISK: Final = Key(
    "{{live}}:broker_disk",
    "string",
    "live",
    60,
    "JSON of what the brokers said last: log_bytes; disk_free_bytes and disk_total_bytes of the "
    "volume with the smallest free share, null where they are not known",
)

LIVE_FORMERLY: Final = tuple(
    f"live:{name}"
    for name in (
        *("swaps", "creations", "prices", "status", "trending"),
        *("epoch", "fence", "vocabulary", "chain"),
    )
)
"""Names of these keys before they had a tag; `live` removes what an earlier version left there."""

# Tracked wallets, watched (`soltape watch`). Under the tag of the live streams: what is known of a
# wallet, the lease and the alert are looked at and written in one step.

WATCH_LEASE: Final = Key(
    "{{live}}:watch:lease",
    "string",
    "watch",
    6,
    "the process that watches; nobody else's writes count",
)
WATCH_REPORT: Final = Key(
    "{{live}}:watch:report",
    "hash",
    "watch",
    None,
    "how the watching goes, as its process said last, for `/api/health`: `api.watch.report`; gone "
    "with a lease that is given back, and else kept: health names a process that died",
)
WATCHED: Final = Key(
    "{{live}}:watch:{wallet}",
    "hash",
    "watch",
    7 * DAY_S,
    "position -> JSON of what was last seen of it: `api.watch.crossings`; version: of the hash; "
    "hour, whole: of the last net worth in ClickHouse",
)

# Books of wallets (agent `pnl`); schemas/positions.py has the packed forms.

POSITIONS: Final = Key(
    "pos:{tag}:{wallet}",
    "hash",
    "pnl",
    None,
    "raw mint -> Position with the open lots of its last chunk; `cold`: some are, or were, in "
    "ClickHouse, cold_positions; a wallet at rest is put away whole",
)
LOTS: Final = Key(
    "lots:{tag}:{wallet}:{mint}:{chunk}",
    "string",
    "pnl",
    None,
    "a full chunk of a position's lots, written once, gone when they are all closed",
)
BALANCES: Final = Key(
    "bal:{tag}:{wallet}",
    "hash",
    "pnl",
    None,
    "raw token account -> Balance; the wallet's own SOL under its own address; empty ones are "
    "gone, and all of a wallet at rest",
)
WALLET_TOTALS: Final = Key(
    "wallets:{tag}", "hash", "pnl", None, "raw wallet -> WalletDay of all days together"
)
WALLET_DAYS: Final = Key(
    "days:{tag}:{day}",
    "hash",
    "pnl",
    None,
    "raw wallet -> WalletDay; day: days since the Unix epoch; gone after 8 days of the chain",
)
TOP_OF_MINT: Final = Key(
    "top:{tag}:{mint}",
    "zset",
    "pnl",
    None,
    "raw wallet, realized micros of a dollar: all wallets of the partition with a position in it "
    "here; `cold`: no less than that of any who is in ClickHouse, +inf where it is not known",
)
TRADED: Final = Key(
    "traded:{tag}", "zset", "pnl", None, "raw mint, hour (since the Unix epoch) it last moved"
)
WALLETS_DUE: Final = Key(
    "due:{tag}",
    "zset",
    "pnl",
    None,
    "raw wallet, hour (since the Unix epoch) from which it may be put away: all that are here",
)
AWAY: Final = Key(
    "away:{tag}",
    "string",
    "pnl",
    None,
    "bitmap of the wallets and mints ever put away into ClickHouse (cold_wallets, cold_positions): "
    "`schemas.away`; 4 MiB at most",
)
BOOKS_CLOCK: Final = Key(
    "clock:{tag}", "string", "pnl", None, "latest block time that the books have seen, ms"
)

# Markets of mints (agent `market`).

MARKETS: Final = Key(
    "markets:{tag}",
    "hash",
    "market",
    None,
    "of a partition: slot and time_ms of the last slot applied; chain time, never the clock's",
)
MARKET: Final = Key(
    "market:{tag}:{mint}",
    "hash",
    "market",
    None,
    "head, candles, minutes, quarters, pool:<address>: `schemas.markets`; token: JSON of what the "
    "chain's events said; price: the writer's own",
)
TRADERS: Final = Key(
    "traders:{tag}:{mint}",
    "zset",
    "market",
    None,
    "raw wallet, or raw pool (its first 8 bytes in earlier versions) and wallet -> minute of the "
    "last trade and volume",
)
ACCOUNTS: Final = Key(
    "accounts:{tag}:{mint}",
    "hash",
    "market",
    None,
    "raw token account -> owner, balance, vault; '=' + raw owner -> balance of 2**53 and more",
)
HOLDERS: Final = Key(
    "holders:{tag}:{mint}",
    "zset",
    "market",
    None,
    "raw owner -> balance of all accounts; pools, curves and burn addresses left out",
)
ACTIVE: Final = Key(
    "markets:{tag}:active",
    "zset",
    "market",
    None,
    "mint -> time_ms of its last event or balance: all whose market is in Redis",
)
MARKETS_AWAY: Final = Key(
    "markets:{tag}:away",
    "string",
    "market",
    None,
    "bitmap of the mints ever put away into ClickHouse (cold_markets): `schemas.away`; 4 MiB",
)
TRENDING: Final = Key(
    "trending:{tag}", "zset", "market", None, "mint -> score; the best of the partition"
)
TRENDING_RECORDS: Final = Key(
    "trending:{tag}:records", "hash", "market", None, "mint -> JSON, fields of `schemas.channels`"
)
METADATA: Final = Key(
    "metadata:{tag}:{mint}",
    "string",
    "market",
    HOUR_S,
    "JSON of what RPC said of a mint: name, symbol, uri, decimals, supply_raw, token_program; "
    "status found or absent, asked_ms; beside the deterministic state; no TTL while the mint's "
    "market is in Redis, goes with it: ClickHouse has it too, token_metadata",
)

# Access (api). Where ACCESS_REDIS_URL leads; all of one API key is under one hash tag, so that one
# script charges it.

API_KEYS: Final = Key(
    "access:keys",
    "hash",
    "api",
    None,
    "id -> SHA-256 of a key's text, in hex: all that there are",
)
API_KEY: Final = Key(
    "access:{tag}",
    "hash",
    "api",
    None,
    "name, plan, owner, last4, created_ms; last_used_ms once it was used, revoked_ms once it was "
    "revoked. Of a user's key `user` alone, whose tag all else is under; it goes with the "
    "key's record. Of a user also issuer, subject and signed_in_ms; suspended_ms once suspended",
)
API_KEY_CREDITS: Final = Key(
    "access:{tag}:credits", "hash", "api", None, "month (2026-11, UTC) -> credits spent in it"
)
API_KEY_MINUTE: Final = Key(
    "access:{tag}:minute",
    "list",
    "api",
    60,
    "times of the requests accepted in the last minute, ms, newest first",
)
API_KEY_GIVEN_BACK: Final = Key(
    "access:{tag}:given_back",
    "string",
    "api",
    60,
    "requests that got their credit back in the minute that began with the first of them",
)
USERS: Final = Key(
    "access:users",
    "hash",
    "api",
    None,
    "id -> SHA-256 of a user's issuer and subject, in hex: all that there are; at most "
    "SIGNIN_MAX_USERS",
)
USER_KEYS: Final = Key(
    "access:{tag}:keys",
    "zset",
    "api",
    None,
    "fingerprint of a user's key -> created_ms; at most 10",
)
USER_KEY: Final = Key(
    "access:{tag}:key:{fingerprint}",
    "hash",
    "api",
    None,
    "name, last4, created_ms; last_used_ms once it was used; revoked_ms once it was revoked, and "
    "then it goes after 30 days, or when 20 others were revoked since",
)
USER_KEYS_REVOKED: Final = Key(
    "access:{tag}:revoked",
    "zset",
    "api",
    30 * DAY_S,
    "fingerprint of a user's key that was revoked -> revoked_ms; the newest, at most 20",
)
USER_KEYS_MADE: Final = Key(
    "access:{tag}:made", "string", "api", DAY_S, "keys made in the day that began with the first"
)
USER_SESSIONS: Final = Key(
    "access:{tag}:sessions",
    "zset",
    "api",
    7 * DAY_S,
    "SHA-256 of the secret of a browser's session, in hex -> when it ends, ms; at most 10",
)
USER_DAY: Final = Key(
    "access:{tag}:day:{day}",
    "hash",
    "api",
    32 * DAY_S,
    "path of a route -> requests of a user let in on a day (2026-11-25, UTC)",
)
USER_SIGN_INS: Final = Key(
    "access:{tag}:signed_in",
    "zset",
    "api",
    1_200,
    "SHA-256 of the state of a sign-in that was finished, in hex -> until when that is known, ms, "
    "which is longer than it can be finished again; at most 100",
)
SIGN_IN_SECRETS: Final = Key(
    "access:{{signins}}:secrets",
    "hash",
    "api",
    2 * DAY_S,
    "what sign-ins under way are sealed with in their browsers. newest: the secret that seals, "
    "since made_ms, for a day; before: the one before it, which still opens",
)
CONNECTION_LEASE_S: Final = 15
API_KEY_CONNECTIONS: Final = Key(
    "access:{tag}:connections",
    "zset",
    "stream_gateway",
    CONNECTION_LEASE_S,
    "WebSocket connection -> when its lease ends, ms; renewed by its gateway while it is open",
)

# Accounts of the chain (agent `accounts`); schemas/accounts.py has the packed form, and
# schemas/account_reading.py what a reader makes of it. The tag is that of the partition of the
# account's own address, of every key: what is known of a wallet is in all partitions.

ACCOUNT: Final = Key(
    "acct:{tag}:{address}",
    "string",
    "accounts",
    None,
    "StoredAccount: the last version; a closing stays for an hour of the chain",
)
FOUND_BY: Final = Key(
    "own:{tag}:{address}",
    "set",
    "accounts",
    None,
    "of a wallet or mint: raw addresses of the partition's accounts whose bytes name it; goes with "
    "them",
)
POOLS_OF: Final = Key(
    "pools:{tag}:{mint}",
    "set",
    "accounts",
    None,
    "raw addresses of the partition's accounts that the mint's tokens stand for by `Kind.mints`: "
    "pools that they are shares of, positions of an NFT; unlike in `own` nobody else can name a "
    "mint in one. It is a hint: its reader looks at the bytes",
)
COVERED: Final = Key(
    "cover:{tag}:{address}",
    "hash",
    "accounts",
    None,
    "of a program or wallet: slot from which the partition has all of it, given: the slot "
    "that said so; or reason, why it is not known; of `schemas.accounts.followed_of` an account "
    "and of `mint_account_of` a mint the same; of `largest_of` a mint also "
    "accounts: raw addresses, and least_raw: none of the others had more at that slot",
)
COVERAGE_FLOOR: Final = Key(
    "cover:{tag}:floor",
    "hash",
    "accounts",
    None,
    "slot: the first one after slots that were lost: coverage given before it is void; hole: the "
    "first of the slots whose changes are being asked for, absent while there are none; programs: "
    "random bytes, others each time that coverage of a program changes",
)
ACCOUNTS_CLOSED: Final = Key(
    "accts:{tag}:closed",
    "zset",
    "accounts",
    None,
    "raw address of an account that is closed -> block time, ms; gone after an hour of the chain",
)
ACCOUNTS_AWAY: Final = Key(
    "accts:{tag}:away",
    "string",
    "accounts",
    None,
    "bitmap of the accounts ever put away into ClickHouse (accounts), and of the wallets and mints "
    "that find them: `schemas.away`; 4 MiB",
)
TRACKED_WALLETS: Final = Key(
    "tracked:wallets",
    "zset",
    "ingest accounts",
    None,
    "raw wallet whose token accounts are kept -> when it was last asked for, ms; at most "
    "ACCOUNT_TRACKED_MAX; `soltape watch` watches the last asked for",
)
TRACKED_MINTS: Final = Key(
    "tracked:mints",
    "zset",
    "ingest accounts",
    None,
    "raw mint whose mint account is kept -> when it was last asked for, or seen to trade, ms; at "
    "most ACCOUNT_TRACKED_MAX",
)
BOOTSTRAP: Final = Key(
    "bootstrap:{program}",
    "hash",
    "ingest accounts",
    None,
    "of a program that is not covered yet: kind and part -> context slot of the answer that is in "
    "the lane; gone with the program's coverage",
)
TRACKED_HOLDERS: Final = Key(
    "tracked:holders",
    "zset",
    "ingest accounts",
    None,
    "raw mint whose largest token accounts are kept -> when they were last asked for, ms; at most "
    "a twentieth of ACCOUNT_TRACKED_MAX",
)
TRACKED_ACCOUNTS: Final = Key(
    "tracked:accounts",
    "zset",
    "ingest accounts",
    None,
    "raw token account or mint that is kept by its address -> when it was last asked for, ms; at "
    "most ACCOUNT_TRACKED_MAX",
)
STAKE_REWARDS: Final = Key(
    "rewards:{tag}:{address}",
    "string",
    "ingest accounts",
    DAY_S,
    "of a stake account: what its last epochs paid, as RPC said: `schemas.stake_rewards`",
)
ASKED_ACCOUNTS: Final = Key(
    "ask:accounts",
    "stream",
    "api",
    None,
    "wallet: raw, mint: raw, account: raw, holders: the raw mint, or rewards: the "
    "raw stake account; what a request asked for; lamports: raw wallet, whose own SOL is asked for "
    "where it is tracked; program: raw, to bootstrap; read by `ingest accounts`; 10,000 entries",
)

# What the URIs of tokens' metadata say (api), fetched by its processes; all under one hash tag, so
# that one script keeps it within METADATA_CACHE_MIB: tokens that nobody asks for leave first.

OFFCHAIN_DOCUMENTS: Final = Key(
    "{{offchain}}:documents",
    "hash",
    "api",
    8 * DAY_S,
    "mint -> JSON of what its URI said, or of why not: `api.metadata.records`",
)
OFFCHAIN_IMAGES: Final = Key(
    "{{offchain}}:images", "hash", "api", 8 * DAY_S, "mint -> bytes of its image, as they came"
)
OFFCHAIN_SIZES: Final = Key(
    "{{offchain}}:sizes",
    "hash",
    "api",
    8 * DAY_S,
    "mint -> bytes of its document and image; empty: of all together",
)
OFFCHAIN_ASKED: Final = Key(
    "{{offchain}}:asked", "zset", "api", 8 * DAY_S, "mint -> when it was last asked for, ms"
)
OFFCHAIN_FETCHING: Final = Key(
    "{{offchain}}:fetching:{mint}",
    "string",
    "api",
    60,
    "a process of the API fetches what the mint's URI says",
)

# Of a month (2026-11, UTC), `api.system.availability`.

MONTH_ANSWERS: Final = Key(
    "access:{tag}:answers", "hash", "api", 400 * DAY_S, "answers to keys: answered, of these failed"
)
MONTH_MINUTES: Final = Key(
    "access:{tag}:served", "string", "api", 400 * DAY_S, "a bit for each minute in which we served"
)
MONTH_FAILED_MINUTES: Final = Key(
    "access:{tag}:failed",
    "string",
    "api",
    400 * DAY_S,
    "a bit for each minute in which a look at the stores failed",
)

# Passes (`api.access.passes`), by the SHA-256 of their secret in hex; each holds the fingerprint of
# the API key that it leads to.

API_LINK: Final = Key(
    "access:link:{hash}", "string", "api", HOUR_S, "a link that lets one browser in, once"
)
API_SESSION: Final = Key(
    "access:session:{hash}", "string", "api", 30 * DAY_S, "the session of a browser"
)
API_TICKET: Final = Key(
    "access:ticket:{hash}", "string", "api", 60, "a ticket that opens one WebSocket"
)
PAYMENT: Final = Key(
    "pay:{id}",
    "hash",
    "api",
    HOUR_S,
    "a payment by the SHA-256 of its transaction's message. request: SHA-256 of what it is bound "
    "to; state: claimed, stored, settled or delivered; owner, lease_until_ms: who works on it; "
    "answer: what it pays for; path: method and path of the request, for the books; settlement: "
    "JSON of the facilitator; sight: JSON of what a node knew of the blockhash before that",
)
PAYMENT_SIZES: Final = Key(
    "pay:{{answers}}:sizes",
    "hash",
    "api",
    2 * HOUR_S,
    "payment -> bytes of the answer that is kept for it, and who took them; of: and a taker -> all "
    "of theirs; empty: of all together, at most PAY_ANSWERS_MIB",
)
PAYMENT_ENDS: Final = Key(
    "pay:{{answers}}:ends", "zset", "api", 2 * HOUR_S, "the same -> when the answer goes, ms"
)
PAYMENT_BOOKS: Final = Key(
    "pay:books:{id}",
    "string",
    "watch",
    30 * DAY_S,
    "two slots: of the newest payment in the books, and the one up to which they lack nothing but "
    "what is unresolved; without it that is the newest payment's. id: SHA-256 of PAY_TO, "
    "PAY_NETWORK and PAY_ASSET, in hex",
)
MCP_SESSIONS: Final = Key(
    "mcp:{tag}:sessions",
    "hash",
    "api",
    30,
    "session of MCP over SSE that a process holds open -> SHA-256 of its key's text, in hex",
)
MCP_ANSWERS: Final = Key(
    "mcp:{tag}:answers",
    "list",
    "api",
    30,
    "answers that other processes made for the sessions of one, oldest first: session, then JSON",
)

# Kafka's subscribers (`api.subscribers`); their passwords are in Kafka alone, as SCRAM secrets.

KAFKA_USERS: Final = Key(
    "access:{{kafka}}:users",
    "hash",
    "api",
    None,
    "user of Kafka -> JSON: account, plan, name, created_ms; is_active: it was given its rights; "
    "gone when it is revoked; 2,000 at most, of an account as many as its plan has",
)
KAFKA_ISSUED: Final = Key(
    "access:{{kafka}}:issued:{account}",
    "string",
    "api",
    HOUR_S,
    "users that an account, by a hash of it, was given in the hour that began with the first",
)
