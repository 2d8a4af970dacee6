"""What a transaction leaves behind when one of its instructions fails."""

from infra.chain.market.runtime import spl
from infra.chain.market.runtime.execution import Execution, Intent
from infra.chain.market.runtime.ledger import Ledger
from infra.chain.market.runtime.programs import TOKEN

PAYER, ACCOUNT = bytes(31) + b"\x01", bytes(31) + b"\x02"


def test_closing_an_account_that_is_not_there_fails_inside_the_token_program():
    # Two forks may both have closed it; the intent is the same on each.
    ledger = Ledger()
    ledger.lamports[PAYER] = 1_000_000
    intent = Intent(
        serial=1,
        payer=PAYER,
        steps=[lambda tx: spl.close_account(tx, ACCOUNT, PAYER, PAYER)],
        recent_blockhash=bytes(32),
    )
    execution = Execution(ledger, intent, slot=1, time_s=0)

    execution.run()

    assert (execution.err_code, execution.err_index) == (3012, 0)
    assert [each[0] for each in execution.instructions] == [TOKEN]
    assert execution.logs[0] == TOKEN.invoke[1]
    assert execution.logs[-1] == f"{TOKEN.failed}0xbc4"
    assert ledger.lamports == {PAYER: 1_000_000 - intent.fee_lamports}
