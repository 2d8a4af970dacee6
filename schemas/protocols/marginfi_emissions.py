"""What a balance has earned of a marginfi bank's emissions since they were last counted.

Source: marginfi-v2 `BankAccountWrapper::claim_emissions` and `calc_emissions`, by the share values
of the bank's last update, as where emissions are withdrawn. Numbers are I80F48, scaled by 2**48.
"""

from __future__ import annotations

from typing import Final

from schemas.protocols.marginfi_interest import YEAR_S, stored_values
from schemas.protocols.math.i80f48 import BITS, ONE, i80f48, product, quotient
from schemas.solana.borsh import u64

_OF_BORROWS: Final = 1  # flags
_OF_DEPOSITS: Final = 2
_FIRST_S: Final = 1_681_989_983  # a balance that was updated before begins now


def earned(bank: bytes, supplied: int, borrowed: int, updated_s: int, time_s: int) -> int:
    """Return what shares have earned since a balance's last update; raises `struct.error`."""
    flags, rate = u64(bank, 840), u64(bank, 848)
    if not flags & (_OF_BORROWS | _OF_DEPOSITS) or not rate:
        return 0
    values = stored_values(bank)
    if supplied >= ONE:
        amount = product(supplied, values.asset) if flags & _OF_DEPOSITS else 0
    elif borrowed >= ONE:
        amount = product(borrowed, values.liability) if flags & _OF_BORROWS else 0
    else:
        return 0
    if updated_s < _FIRST_S or updated_s >= time_s:
        return 0
    whole = quotient(amount, 10 ** bank[40] << BITS)
    return max(min((time_s - updated_s) * whole // YEAR_S * rate, i80f48(bank, 856)), 0)
