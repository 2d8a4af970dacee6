"""What a transaction moved, account by account: the ledger's own word, not read from the bytes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from infra.chain.market.runtime import programs
from infra.chain.market.runtime.execution import Execution
from schemas.solana.addresses import text

_VENUES: Final = frozenset(
    program.address
    for program in (
        programs.DRIFT,
        programs.JUPITER_PERPS,
        programs.JUPITER_TRIGGER,
        programs.METEORA_DAMM_V2,
        programs.METEORA_DBC,
        programs.METEORA_DLMM,
        programs.ORCA_WHIRLPOOL,
        programs.PUMP_FUN,
        programs.PUMP_SWAP,
        programs.RAYDIUM_AMM_V4,
        programs.RAYDIUM_CLMM,
        programs.RAYDIUM_CPMM,
        programs.RAYDIUM_LAUNCHLAB,
    )
)


def flow(tx: Execution, accounts: Iterable[bytes]) -> dict[str, Any]:
    """Return what a transaction that succeeded did to the accounts it names.

    `seen`: it names a program of a venue. `tokens`: account, owner, mint, decimals, raw amounts
    before and after (None: not there), and the pool whose vault it is; those that kept their
    amount as well. `sol`: lamports before and after of the other accounts, if they changed, and
    the pool that keeps its SOL so. `burned`: account, owner, mint, raw amount, of what outer
    instructions burned. `token_2022`: the mints among them that are. `signers`: fee payer first.
    """
    ledger, before = tx.ledger, tx.changes
    vaults = ledger.vaults
    tokens, sol, mints_2022 = [], [], set()
    seen = False
    for address in sorted(accounts):
        now = ledger.tokens.get(address)
        noted = before.tokens.get(address, (now, now.amount_raw) if now else None)
        account = now or (noted[0] if noted else None)
        if account is None:
            seen = seen or address in _VENUES
            if address in before.lamports:
                pre, post = before.lamports[address] or 0, ledger.lamports.get(address, 0)
                if pre != post:
                    sol.append((text(address), pre, post, _pool(vaults, address)))
            continue
        mint = account.mint
        tokens.append(
            (
                text(address),
                account.owner_text,
                mint.text,
                mint.decimals,
                noted[1] if noted else None,
                now.amount_raw if now else None,
                _pool(vaults, address),
            )
        )
        if mint.program is programs.TOKEN_2022:
            mints_2022.add(mint.text)
    return {
        "seen": seen,
        "signers": [text(key) for key in (tx.intent.payer, *tx.intent.cosigners)],
        "tokens": tokens,
        "sol": sol,
        "burned": [
            (text(account.address), account.owner_text, account.mint.text, amount_raw)
            for account, amount_raw in tx.burns
        ],
        "token_2022": sorted(mints_2022),
    }


def _pool(vaults: dict[bytes, bytes], address: bytes) -> str | None:
    pool = vaults.get(address)
    return text(pool) if pool else None
