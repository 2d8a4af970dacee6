"""What executes the simulated market's transactions, and writes down what happened.

`ledger` holds every account and `execution` one running transaction; `spl` are the programs that
all venues call, `programs` their addresses. `events` are what venues report of a transaction,
`truth` and `flows` write it as records. `wire` makes the bytes a Yellowstone server sends,
`damage` cuts them, `accounts` makes account data for the RPC.
"""
