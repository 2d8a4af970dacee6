"""Statements on an engine that has a Keeper within itself; run as a process: `with_keeper.py DATA`.

The engine of chDB makes replicated tables there as a server does, with their places in Keeper. It
has no port for other replicas, so the tables are never more than read-only. Input: JSON lines, a
statement each. Output: a line each, [code of the error or 0, text].
"""

import json
import os
import re
import sys
from pathlib import Path

from chdb.state.sqlitelike import Connection

CONFIGURATION = """
<clickhouse>
  <zookeeper>
    <implementation>testkeeper</implementation>
    <node><host>127.0.0.1</host><port>1</port></node>
  </zookeeper>
  <macros><shard>01</shard><replica>r1</replica></macros>
</clickhouse>
"""


def main() -> None:
    data = Path(sys.argv[1])
    config = data / "config.xml"
    config.write_text(CONFIGURATION)
    engine = Connection(f"file:{data / 'tables'}?config-file={config}")
    for line in sys.stdin:
        try:
            found = [0, bytes(engine.query(json.loads(line), "TSV").bytes()).decode()]
        except RuntimeError as error:
            code = re.search(r"Code: (\d+)", str(error))
            found = [int(code[1]) if code else -1, str(error)]
        sys.stdout.write(f"{json.dumps(found)}\n")
    sys.stdout.flush()
    os._exit(0)  # an engine with read-only replicas does not close


if __name__ == "__main__":
    main()
