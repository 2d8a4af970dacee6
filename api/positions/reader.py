"""What a wallet has of a protocol: accounts, readings, prices, one answer.

A wallet is asked for in four trips to Redis at most: how many accounts it has; what finds them; the
accounts and the clock; what these need. Prices are one more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence

from api.accounts.following import Following
from api.positions import driver
from api.positions.accounts_reader import AccountsReader, WalletAccounts
from api.positions.answers import PositionError, PositionRecord, ProtocolPositions
from api.positions.driver import Failure, Outcome
from api.positions.records import mints_of, record
from api.positions.rewards import Rewards, RewardsReader
from api.tokens.reader import TokenReader, Tokens
from schemas.amounts import text as number_text
from schemas.amounts import usd
from schemas.protocols.clock import clock_of
from schemas.protocols.contract import Account, Held, Protocol, Unreadable, World
from schemas.protocols.token import held_tokens
from schemas.solana.addresses import CLOCK, key, text


class Positions:
    """Answers about positions. Every method raises Problem."""

    def __init__(
        self,
        accounts: AccountsReader,
        tokens: TokenReader,
        rewards: RewardsReader,
        following: Following,
    ) -> None:
        self._accounts = accounts
        self._following = following
        self._tokens = tokens
        self._rewards = rewards

    async def of_route(
        self, wallet: str, slug: str, protocol: Protocol, route: str, holder: str
    ) -> ProtocolPositions:
        """Return a wallet's positions of one route of a protocol, for a key's fingerprint."""
        programs = _programs(protocol)
        held, found = await asyncio.gather(
            self._accounts.of_wallet(wallet, programs), self._accounts.at([CLOCK])
        )
        outcome = await self._read(wallet, protocol, held, found, holder)
        outcome.positions = [each for each in outcome.positions if each.route == route]
        tokens = await self._tokens.read(mints_of(outcome.positions))
        stakes = [each.account.address for each in outcome.positions if each.stake is not None]
        rewards: Mapping[bytes, Rewards] = {}
        if stakes and outcome.epoch is not None:
            rewards = await self._rewards.read(stakes, outcome.epoch, holder)
        return _answer(wallet, slug, protocol, held, outcome, tokens, rewards)

    async def _read(
        self,
        wallet: str,
        protocol: Protocol,
        held: WalletAccounts,
        found: Mapping[bytes, Account],
        holder: str,
    ) -> Outcome:
        accounts = [each for each in held.accounts if each.kind in protocol.kinds]
        try:
            clock = clock_of(found[CLOCK])
        except (KeyError, Unreadable):
            detail = "the chain's clock is not known"
            return Outcome([], [Failure(CLOCK, "reference_missing", detail)])
        world = World(clock.slot, clock.time_s, clock.epoch)
        of_wallet = Held(key(wallet), accounts, held_tokens(held.accounts))

        followed: set[bytes] = set()

        async def fetch(addresses: Sequence[bytes]) -> Mapping[bytes, Account]:
            missing = [address for address in addresses if address not in found]
            sent = await self._accounts.at(missing)
            followed.update(each for each in sent if sent[each].kind.group == "tokens")
            return {**found, **sent}

        [outcome] = await driver.run([(protocol, of_wallet)], world, fetch)
        outcome.epoch = clock.epoch
        await self._follow(outcome, followed, holder)
        return outcome

    async def _follow(self, outcome: Outcome, used: Collection[bytes], holder: str) -> None:
        """Have the token accounts followed that a reading used or lacks; say so of the latter."""
        missing = [
            each.account
            for each in outcome.failures
            if each.code == "reference_missing" and each.account is not None
        ]
        refused = await self._following.ask_accounts([*missing, *used], holder)
        detail = (
            "the account is not known yet; it is asked for: ask again in a second"
            if refused is None
            else f"the account is not known, and not all could be asked for: {refused}"
        )
        outcome.failures = [
            each._replace(detail=detail) if each.code == "reference_missing" else each
            for each in outcome.failures
        ]


def _programs(protocol: Protocol) -> tuple[bytes, ...]:
    """Return the programs that must be covered for a protocol's positions to be all."""
    return tuple(dict.fromkeys(each.program for each in protocol.kinds if each.wallets))


def _answer(
    wallet: str,
    slug: str,
    protocol: Protocol,
    held: WalletAccounts,
    outcome: Outcome,
    tokens: Tokens,
    rewards: Mapping[bytes, Rewards],
) -> ProtocolPositions:
    errors = [*_errors(slug, protocol, held, outcome)]
    is_complete = held.is_whole and not errors
    records = sorted(
        (
            record(slug, each, tokens, rewards.get(each.account.address, (None, "not_asked")))
            for each in outcome.positions
        ),
        key=_order,
    )
    assets = [asset for each in records for asset in each["assets"]]
    values = [int(each["value_usd_micros"]) for each in records if each["value_usd_micros"]]
    value = sum(values) if is_complete and values else None
    since = _since(held, protocol)
    return {
        "as_of_slot": held.as_of_slot,
        "as_of_ms": held.as_of_ms,
        "wallet": wallet,
        "protocol": slug,
        "name": protocol.name,
        "identified": protocol.identified,
        "positions": records,
        "value_usd": usd(value),
        "value_usd_micros": number_text(value),
        "unpriced": sum(each["value_usd_micros"] is None for each in assets),
        "is_complete": is_complete,
        "coverage": {
            "since_slot": since,
            "known_accounts": held.known,
            "read_accounts": held.read,
        },
        "errors": errors,
        "unsupported_fields": [*protocol.unsupported_fields],
    }


def _since(held: WalletAccounts, protocol: Protocol) -> int | None:
    """Return the slot from which all of a protocol's programs are covered."""
    slots = [held.coverage[program].slot for program in _programs(protocol)]
    known = [slot for slot in slots if slot is not None]
    return max(known) if known and len(known) == len(slots) else None


def _errors(
    slug: str, protocol: Protocol, held: WalletAccounts, outcome: Outcome
) -> Iterator[PositionError]:
    for program in _programs(protocol):
        covered = held.coverage[program]
        if covered.slot is None:
            yield {
                "protocol": slug,
                "account": text(program),
                "code": "not_covered",
                "detail": covered.reason or "not all accounts of the program are known yet",
            }
    for address, detail in held.unreadable.items():
        yield {
            "protocol": None,
            "account": text(address),
            "code": "unreadable",
            "detail": detail,
        }
    for failure in outcome.failures:
        yield {
            "protocol": slug,
            "account": None if failure.account is None else text(failure.account),
            "code": failure.code,
            "detail": failure.detail,
        }


def _order(position: PositionRecord) -> tuple[int, str]:
    micros = position["value_usd_micros"]
    return 1 if micros is None else -int(micros), position["position_id"]
