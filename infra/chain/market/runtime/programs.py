"""The programs and well-known accounts that the market's transactions name, and key derivation.

Ids as listed in the Solana program registries and the venues' own interface files.
"""

from __future__ import annotations

from hashlib import blake2b, sha256
from typing import Final

from solders.pubkey import Pubkey

from schemas.solana.addresses import key


def pda(program: Program, *seeds: bytes) -> bytes:
    """Return a program derived address."""
    return bytes(Pubkey.find_program_address(list(seeds), program.pubkey)[0])


def pda_and_bump(program: Program, *seeds: bytes) -> tuple[bytes, int]:
    """Return a program derived address with the bump that takes it off the curve."""
    address, bump = Pubkey.find_program_address(list(seeds), program.pubkey)
    return bytes(address), bump


def derived(*labels: object) -> bytes:
    """Return 32 bytes that depend on the labels alone; in place of a keypair's public key."""
    return blake2b(repr(labels).encode(), digest_size=32).digest()


def anchor_tag(name: str) -> bytes:
    """Return the 8-byte tag of an Anchor instruction, from its snake_case name."""
    return sha256(f"global:{name}".encode()).digest()[:8]


def event_tag(name: str) -> bytes:
    """Return the 8-byte tag of an Anchor event, from its struct name."""
    return sha256(f"event:{name}".encode()).digest()[:8]


class Program:
    """A program with the log lines the runtime writes around its invocations."""

    __slots__ = (
        "address",
        "consumed",
        "event_authority",
        "failed",
        "invoke",
        "name",
        "pubkey",
        "returned",
        "success",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.pubkey = Pubkey.from_string(name)
        self.address = bytes(self.pubkey)
        self.invoke = ("", *(f"Program {name} invoke [{h}]" for h in range(1, 10)))
        self.success = f"Program {name} success"
        self.consumed = f"Program {name} consumed "
        self.failed = f"Program {name} failed: custom program error: "
        self.returned = f"Program return: {name} "
        self.event_authority = bytes(
            Pubkey.find_program_address([b"__event_authority"], self.pubkey)[0]
        )

    def __repr__(self) -> str:
        return f"Program({self.name})"


SYSTEM: Final = Program("11111111111111111111111111111111")
COMPUTE_BUDGET: Final = Program("ComputeBudget111111111111111111111111111111")
STAKE: Final = Program("Stake11111111111111111111111111111111111111")
VOTE: Final = Program("Vote111111111111111111111111111111111111111")
TOKEN: Final = Program("TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA")
TOKEN_2022: Final = Program("TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb")
ASSOCIATED_TOKEN: Final = Program("ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL")
METADATA: Final = Program("metaqbxxUerdq28cj1RbAWkYQm3ybzjb6a8bt518x1s")
MEMO: Final = Program("MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr")

PUMP_FUN: Final = Program("6EF8rrecthR5Dkzon8Nwu78hRvfCKubJ14M5uBEwF6P")
PUMP_SWAP: Final = Program("pAMMBay6oceH9fJKBRHGP5D4bD4sWpmSwMn52FMfXEA")
PUMP_FEES: Final = Program("pfeeUxB6jkeY1Hxd7CsFCAjcbHA9rWtchMGdZ6VojVZ")
MAYHEM: Final = Program("MAyhSmzXzV1pTf7LsNkrNwkWKTo4ougAJ1PPg47MD4e")
RAYDIUM_AMM_V4: Final = Program("675kPX9MHTjS2zt1qfr1NYHuzeLXfQM9H24wFSUt1Mp8")
OPENBOOK_V1: Final = Program("srmqPvymJeFKQ4zGQed1GFppgkRHL9kaELCbyksJtPX")
RAYDIUM_CPMM: Final = Program("CPMMoo8L3F4NbTegBCKVNunggL7H1ZpdTHKxQB5qKP1C")
RAYDIUM_CLMM: Final = Program("CAMMCzo5YL8w4VFF8KVHrK22GGUsp5VTaW7grrKgrWqK")
RAYDIUM_LAUNCHLAB: Final = Program("LanMV9sAd7wArD4vJFi2qDdfnVhFxYSUg6eADduJ3uj")
RAYDIUM_LOCK: Final = Program("LockrWmn6K5twhz3y9w1dQERbmgSaRkfnTeTKbpofwE")
ORCA_WHIRLPOOL: Final = Program("whirLbMiicVdio4qvUfM5KAg6Ct8VwpYzGff3uctyCc")
METEORA_DLMM: Final = Program("LBUZKhRxPF3XUpBCjp4YzTKgLccjZhTSDM9YuVaPwxo")
METEORA_DAMM_V2: Final = Program("cpamdpZCGKUy5JxQXB4dcpGPiikHawvSWAd6mEn1sGG")
METEORA_DBC: Final = Program("dbcij3LWUppWqq96dh6gJWwBifmcGfLSB5D4DuSMaqN")
JUPITER_TRIGGER: Final = Program("j1o2qRpjcyUwEvwtcfhEQefh773ZgjxcVRry7LDqg5X")
JUPITER: Final = Program("JUP6LkbZbjS1jKKwapdHNy74zcZ3tLUZoi5QNyVTaV4")
MARGINFI: Final = Program("MFv2hWf31Z9kbCa1snEPYctwafyhdvnV7FZnsebVacA")
KLEND: Final = Program("KLend2g3cP87fffoy8q1mQqGKjrxjC8boSyAYavgmjD")
JUPITER_PERPS: Final = Program("PERPHjGBqRHArX4DySjwM6UJHiR3sWAatqfdBS2qQJu")
DOVES: Final = Program("DoVEsk76QybCEHQGzkvYPWLQu9gzNoZZZt3TPiL597e")
DRIFT: Final = Program("dRiftyHA39MWEi3m9aunc5MzRF1JYuBsbn6VPcn33UH")

KLEND_MAIN_MARKET: Final = key("7u3HeHxYDLhnCoErrtycNokbQYbWGzLs6JSDqGAv5PfF")
MARGINFI_MAIN_GROUP: Final = key("4qp6Fx6tnZkY5Wropq9wUYgtFxXKwE6viZxFHg3rdAG8")
"""Anybody can open a market or a group: positions in others count in no sum."""

PROGRAMS: Final = (
    SYSTEM,
    COMPUTE_BUDGET,
    STAKE,
    VOTE,
    TOKEN,
    TOKEN_2022,
    ASSOCIATED_TOKEN,
    METADATA,
    MEMO,
    PUMP_FUN,
    PUMP_SWAP,
    PUMP_FEES,
    MAYHEM,
    RAYDIUM_AMM_V4,
    OPENBOOK_V1,
    RAYDIUM_CPMM,
    RAYDIUM_CLMM,
    RAYDIUM_LAUNCHLAB,
    RAYDIUM_LOCK,
    ORCA_WHIRLPOOL,
    METEORA_DLMM,
    METEORA_DAMM_V2,
    METEORA_DBC,
    JUPITER_TRIGGER,
    JUPITER,
    MARGINFI,
    KLEND,
    JUPITER_PERPS,
    DOVES,
    DRIFT,
)

WSOL: Final = key("So11111111111111111111111111111111111111112")
USDC: Final = key("EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v")
USDT: Final = key("Es9vMFrzaCERmJfrF4H2FYD4KCoNkY11McCe8BenwNYB")
USD1: Final = key("USD1ttGY1N17NEEHLmELoaybftRBUSErhqYiQzvEmuB")
QUOTES: Final = (WSOL, USDC, USDT, USD1)

NO_ADDRESS: Final = bytes(32)
RENT_SYSVAR: Final = key("SysvarRent111111111111111111111111111111111")
INSTRUCTIONS_SYSVAR: Final = key("Sysvar1nstructions1111111111111111111111111")

JITO_TIP_ACCOUNTS: Final = tuple(
    key(text)
    for text in (
        "96gYZGLnJYVFmbjzopPSU6QiEV5fGqZNyN9nmNhvrZU5",
        "HFqU5x63VTqvQss8hp11i4wVV8bD44PvwucfZ2bU7gRe",
        "Cw8CFyM9FkoMi7K7Crf6HNQqf4uEMzpKw6QNghXLvLkY",
        "ADaUMid9yfUytqMBgopwjb2DTLSokTSzL1zt6iGPaS49",
        "DfXygSm4jCyNCybVYYK6DwvWqjKee8pbDmJGcLWNDXjh",
        "ADuUkR4vqLUMWXxW9gh6D6L8pMSawimctcNZ5pGwDcEt",
        "DttWaMuVvTiduZRnguLF7jNxTgiMBZ1hyAumKUiL2KRL",
        "3AVi9Tg9Uo68tJfuvoKvqKNWKkC5wPdSSdeBnizKZ6jT",
    )
)
