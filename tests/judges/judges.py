"""The SDKs and coders that judge positions, and the tests that ask each."""

from __future__ import annotations

from typing import Final, NamedTuple

FOLDER: Final = "tests/schemas/protocols/"


class Judge(NamedTuple):
    """Tests below `FOLDER`, and the variable that has a large SDK installed."""

    tests: tuple[str, ...]
    variable: str | None = None

    @property
    def paths(self) -> list[str]:
        """The tests as pytest takes them."""
        return [FOLDER + each for each in self.tests]

    @property
    def variables(self) -> dict[str, str]:
        """What the tests' environment has more."""
        return {self.variable: "1"} if self.variable else {}


_KAMINO: Final = "test_kamino.py::test_"
_METEORA: Final = "test_meteora_sdks.py::test_"

JUDGES: Final = {
    "klend-sdk": Judge(
        (
            f"{_KAMINO}200_loans_are_read_as_klend_sdk_reads_them",
            f"{_KAMINO}random_accounts_are_of_their_kind_and_never_break_a_reading",
            f"{_KAMINO}real_accounts_are_read_as_klend_sdk_reads_them",
            f"{_KAMINO}withdrawals_that_wait_are_what_the_coder_wrote",
            "test_vault_sdk.py",
        ),
        "KLEND_SDK",
    ),
    "farms-sdk": Judge((f"{_KAMINO}200_farms_are_read_as_farms_sdk_reads_them",), "KLEND_SDK"),
    "marginfi-client-v2": Judge(("test_marginfi.py",), "MARGINFI_SDK"),
    "whirlpools": Judge(("test_whirlpools.py",)),
    "dlmm": Judge(
        (
            f"{_METEORA}random_bins_are_read_as_the_sdk_reads_them",
            f"{_METEORA}real_bins_are_read_as_the_sdk_reads_them",
        ),
        "METEORA_SDK",
    ),
    "cp-amm-sdk": Judge(
        (
            f"{_METEORA}random_pools_are_read_as_the_sdk_reads_them",
            f"{_METEORA}real_pools_are_read_as_the_sdk_reads_them",
        ),
        "METEORA_SDK",
    ),
    "lend-read": Judge(("test_jupiter_lend.py",), "JUPITER_LEND_SDK"),
    "raydium-sdk-v2": Judge(("test_raydium_clmm.py", "test_raydium_pools.py"), "RAYDIUM_SDK"),
    "drift": Judge(("test_drift_sdk.py",), "DRIFT_SDK"),
    "voltr": Judge(("test_voltr_sdk.py",), "VOLTR_SDK"),
    "m3m3": Judge(("test_m3m3_sdk.py",), "M3M3_SDK"),
    "flash": Judge(("test_flash_sdk.py",), "FLASH_SDK"),
    "exponent": Judge(("test_exponent_ticks.py",), "EXPONENT_SDK"),
    "stake-pools": Judge(("test_pools.py",)),
    "governance": Judge(("test_realms.py", "test_tribeca.py", "test_jupiter_dao.py")),
    "helium": Judge(("test_helium.py",)),
    "coders": Judge(
        (
            *("test_vault_coders.py", "test_staking_coders.py", "test_perp_coders.py"),
            *("test_loopscale.py", "test_offerbook.py", "test_exponent.py"),
            "test_drift.py::test_the_fee_is_where_anchors_coder_writes_it",
        )
    ),
}
