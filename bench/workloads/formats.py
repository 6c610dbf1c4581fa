"""A stream of each format: its text, its declaration, and how Spark and DuckDB read it by hand."""

from __future__ import annotations

from dataclasses import dataclass, field

# Columns of the decoded table.
COLUMNS = {
    "id": "bigint",
    "name": "string",
    "amount": "decimal(12,2)",
    "quantity": "int",
    "noted_at": "timestamp",
}
NAMES = ", ".join(COLUMNS)
# The fields of an image in DuckDB, and in Spark.
DUCK_IMAGE = (
    '{"id":"BIGINT","name":"VARCHAR","amount":"DECIMAL(12,2)","quantity":"INTEGER",'
    '"noted_at":"TIMESTAMP"}'
)
LAST_IMAGE = "(coalesce(m.after, m.before))"
SPARK_IMAGE = "id: bigint, name: string, amount: decimal(12,2), quantity: int, noted_at: {time}"


@dataclass(frozen=True)
class Format:
    """A format of the decoding workloads.

    Attributes:
        message: SQL of Spark: the event as text, from the columns of `EVENTS`. Without it the raw
            table has the values themselves as columns.
        options: What the declaration says beside the format's name.
        spark_schema: Schema that a bare from_json reads the text with; without one, the rows are
            read as they are.
        duck: SELECT of DuckDB over {events}: op, seq, ts and the columns.
        columns: Further columns of the raw table, as SQL of Spark.
    """

    duck: str
    message: str = ""
    options: dict[str, object] = field(default_factory=dict)
    spark_schema: str = ""
    columns: tuple[str, ...] = ()


# n: position; op: I, U or D; the columns; at: noted_at as text; committed: time of the commit.
EVENTS = """
select
    id as n,
    case when id % 10 = 0 then 'D' when id % 10 < 3 then 'I' else 'U' end as op,
    id * 7 as id,
    concat('customer ', hex(xxhash64(id))) as name,
    cast(pmod(xxhash64(id), 10000000) / 100 as decimal(12,2)) as amount,
    cast(pmod(xxhash64(id), 100) as int) as quantity,
    timestamp_micros(1767225600000000 + id * 1000003) as noted_at,
    timestamp_micros(1798761600000000 + id * 1000) as committed
from range({count})
"""

ROW = (
    'format_string(\'{"id":%d,"name":"%s","amount":%s,"quantity":%d,"noted_at":"%s"}\','
    " id, name, amount, quantity, date_format(noted_at, 'yyyy-MM-dd HH:mm:ss.SSSSSS'))"
)
KEY = "format_string('{\"id\":%d}', id)"
COMMITTED = "date_format(committed, 'yyyy-MM-dd HH:mm:ss.SSSSSS')"
LSN = "concat(hex(n div 65536), '/', hex(n % 65536 + 1))"


def _text(template: str, *values: str) -> str:
    """Spark's format_string; each %s is one value."""
    quoted = template.replace("'", "\\'")
    return f"format_string('{quoted}', {', '.join(values)})"


def _op(insert: str, update: str, delete: str) -> str:
    return f"case op when 'I' then '{insert}' when 'U' then '{update}' else '{delete}' end"


def _duck(schema: str, select: str) -> str:
    return f"select {select} from (select from_json(value, '{schema}') as m from {{events}})"


def _duck_image(image: str) -> str:
    return ", ".join(f"{image}.{name} as {name}" for name in COLUMNS)


def _duck_op(field_: str, insert: str, update: str, delete: str) -> str:
    return (
        f"case {field_} when '{insert}' then 'I' when '{update}' then 'U'"
        f" when '{delete}' then 'D' end as op"
    )


def _duck_lsn(text: str) -> str:
    return (
        f"(('0x' || split_part({text}, '/', 1))::BIGINT * 4294967296"
        f" + ('0x' || split_part({text}, '/', 2))::BIGINT) as seq"
    )


def _named(pairs: str) -> str:
    """DuckDB: the columns out of an array of name and value."""
    picked = [
        f"try_cast(list_extract(list_filter({pairs}, lambda c: c.name = '{name}'), 1).value as"
        f" {'VARCHAR' if kind == 'string' else kind}) as {name}"
        for name, kind in COLUMNS.items()
    ]
    return ", ".join(picked)


def _paired(names: str, values: str) -> str:
    """DuckDB: the columns out of an array of names and one of values."""
    picked = [
        f"try_cast(list_extract({values}, list_position({names}, '{name}')) as"
        f" {'VARCHAR' if kind == 'string' else kind}) as {name}"
        for name, kind in COLUMNS.items()
    ]
    return ", ".join(picked)


NAMES_JSON = '["id","name","amount","quantity","noted_at"]'
VALUES_JSON = (
    'format_string(\'[%d,"%s",%s,%d,"%s"]\', id, name, amount, quantity,'
    " date_format(noted_at, 'yyyy-MM-dd HH:mm:ss.SSSSSS'))"
)
TEXT_VALUES_JSON = (
    'format_string(\'["%d","%s","%s","%d","%s"]\', id, name, amount, quantity,'
    " date_format(noted_at, 'yyyy-MM-dd HH:mm:ss.SSSSSS'))"
)
PAIRS_JSON = (
    'format_string(\'[{"name":"id","type":"bigint","value":%d},{"name":"name","type":"text","value":"%s"},'
    '{"name":"amount","type":"numeric(12,2)","value":%s},'
    '{"name":"quantity","type":"integer","value":%d},'
    '{"name":"noted_at","type":"timestamp","value":"%s"}]\', id, name, amount, quantity,'
    " date_format(noted_at, 'yyyy-MM-dd HH:mm:ss.SSSSSS'))"
)
KEY_PAIRS_JSON = 'format_string(\'[{"name":"id","type":"bigint","value":%d}]\', id)'
MICROS_ROW = (
    'format_string(\'{"id":%d,"name":"%s","amount":%s,"quantity":%d,"noted_at":%d}\','
    " id, name, amount, quantity, unix_micros(noted_at))"
)
TEXT_ROW = (
    'format_string(\'{"id":"%d","name":"%s","amount":"%s","quantity":"%d","noted_at":"%s"}\','
    " id, name, amount, quantity, date_format(noted_at, 'yyyy-MM-dd HH:mm:ss.SSSSSS'))"
)

FORMATS = {
    "flagged": Format(
        columns=("op as flag", "n as seq", "committed as changed_at", *COLUMNS),
        options={"operation": "flag", "sequence_by": "seq", "event_time": "changed_at"},
        duck=f"select flag as op, seq, changed_at as ts, {NAMES} from {{events}}",
    ),
    "delta_cdf": Format(
        columns=(
            _op("insert", "update_postimage", "delete") + " as _change_type",
            "n div 1000 as _commit_version",
            "committed as _commit_timestamp",
            *COLUMNS,
        ),
        duck=(
            "select case _change_type when 'insert' then 'I' when 'update_postimage' then 'U' when"
            " 'delete' then 'D' end as op, _commit_version * 2 + (_change_type <> 'delete')::INT as"
            f" seq, _commit_timestamp as ts, {NAMES} from {{events}}"
        ),
    ),
    "change_event": Format(
        message=_text(
            '{"changeType":"%s","timestamp":"%d","columnNames":'
            + NAMES_JSON
            + ',"columnValues":%s,"oldKeyNames":["id"],"oldKeyValues":["%d"]}',
            _op("insert", "update", "delete"),
            "n",
            TEXT_VALUES_JSON,
            "id",
        ),
        options={"payload": "value"},
        spark_schema=(
            "changeType string, timestamp string, columnNames array<string>,"
            " columnValues array<string>, oldKeyNames array<string>, oldKeyValues array<string>"
        ),
        duck=_duck(
            '{"changeType":"VARCHAR","timestamp":"VARCHAR","columnNames":["VARCHAR"],'
            '"columnValues":["VARCHAR"],"oldKeyNames":["VARCHAR"],"oldKeyValues":["VARCHAR"]}',
            _duck_op("m.changeType", "insert", "update", "delete")
            + ", try_cast(m.timestamp as BIGINT) as seq, null::TIMESTAMP as ts, "
            + _paired("m.columnNames", "m.columnValues"),
        ),
    ),
    "debezium": Format(
        message=_text(
            '{"before":%s,"after":%s,"source":{"version":"3.0","connector":"postgresql","name":"s",'
            '"ts_ms":%d,"db":"shop","schema":"public","table":"orders","txId":%d,"lsn":%d},'
            '"op":"%s","ts_ms":%d,"transaction":null}',
            f"if(op = 'I', 'null', {MICROS_ROW})",
            f"if(op = 'D', 'null', {MICROS_ROW})",
            "unix_millis(committed)",
            "n div 10",
            "n",
            _op("c", "u", "d"),
            "unix_millis(committed)",
        ),
        options={"encodings": {"amount": "number", "noted_at": "epoch_micros"}},
        spark_schema=(
            f"before struct<{SPARK_IMAGE.format(time='bigint')}>,"
            f" after struct<{SPARK_IMAGE.format(time='bigint')}>, source struct<ts_ms: bigint,"
            " db: string, schema: string, table: string, lsn: bigint>, op string"
        ),
        duck=_duck(
            '{"before":IMAGE,"after":IMAGE,"source":{"ts_ms":"BIGINT","lsn":"BIGINT",'
            '"db":"VARCHAR","schema":"VARCHAR","table":"VARCHAR"},"op":"VARCHAR"}'.replace(
                "IMAGE", DUCK_IMAGE.replace("TIMESTAMP", "BIGINT")
            ),
            _duck_op("m.op", "c", "u", "d")
            + ", m.source.lsn as seq, make_timestamp(m.source.ts_ms * 1000) as ts, "
            + _duck_image(LAST_IMAGE).replace(
                f"{LAST_IMAGE}.noted_at", f"make_timestamp({LAST_IMAGE}.noted_at)"
            ),
        ),
    ),
    "wal2json_v1": Format(
        message=_text(
            '{"timestamp":"%s","nextlsn":"%s","change":[{"kind":"%s","schema":"public","table":"orders"'
            "%s%s}]}",
            f"concat({COMMITTED}, '+00')",
            LSN,
            _op("insert", "update", "delete"),
            "if(op = 'D', '', concat(',\"columnnames\":"
            + NAMES_JSON.replace('"', '\\"')
            + ',"columnvalues":\', '
            + VALUES_JSON
            + "))",
            "if(op = 'I', '',"
            ' concat(\',"oldkeys":{"keynames":["id"],"keyvalues":[\', id, \']}\'))',
        ),
        spark_schema=(
            "change array<struct<kind: string, schema: string, table: string, columnnames:"
            " array<string>, columnvalues: array<string>, oldkeys: struct<keynames: array<string>,"
            " keyvalues: array<string>>>>, timestamp string, nextlsn string"
        ),
        duck=(
            "select "
            + _duck_op("c.kind", "insert", "update", "delete")
            + f", {_duck_lsn('m.nextlsn')}, m.timestamp as ts, "
            + _paired("c.columnnames", "c.columnvalues").replace(" as id", " as new_id", 1)
            + ", coalesce(new_id, try_cast(c.oldkeys.keyvalues[1] as BIGINT)) as id"
            " from (select m, unnest(m.change) as c from (select from_json(value, "
            '\'{"timestamp":"TIMESTAMP","nextlsn":"VARCHAR","change":[{"kind":"VARCHAR",'
            '"columnnames":["VARCHAR"],"columnvalues":["VARCHAR"],"schema":"VARCHAR",'
            '"table":"VARCHAR","oldkeys":{"keynames":["VARCHAR"],"keyvalues":["VARCHAR"]}}]}\')'
            " as m from {events}))"
        ),
    ),
    "wal2json_v2": Format(
        message=_text(
            '{"action":"%s","xid":%d,"timestamp":"%s","lsn":"%s","schema":"public","table":"orders"%s%s}',
            "op",
            "n",
            f"concat({COMMITTED}, '+00')",
            LSN,
            f"if(op = 'D', '', concat(',\"columns\":', {PAIRS_JSON}))",
            f"if(op = 'I', '', concat(',\"identity\":', {KEY_PAIRS_JSON}))",
        ),
        spark_schema=(
            "action string, timestamp string, lsn string, schema string, table string, columns"
            " array<struct<name: string, value: string>>, identity array<struct<name: string,"
            " value: string>>"
        ),
        duck=_duck(
            '{"action":"VARCHAR","timestamp":"TIMESTAMP","lsn":"VARCHAR","schema":"VARCHAR",'
            '"table":"VARCHAR","columns":[{"name":"VARCHAR","value":"VARCHAR"}],'
            '"identity":[{"name":"VARCHAR","value":"VARCHAR"}]}',
            f"m.action as op, {_duck_lsn('m.lsn')}, m.timestamp as ts,"
            " coalesce(m.columns, m.identity) as image, " + _named("image"),
        ),
    ),
    "dms": Format(
        message=_text(
            '{"data":%s,"metadata":{"timestamp":"%s","record-type":"data","operation":"%s",'
            '"partition-key-type":"schema-table","schema-name":"shop","table-name":"orders",'
            '"transaction-id":%d,"transaction-record-id":%d,"commit-timestamp":"%s"}}',
            ROW,
            "date_format(committed, \"yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'\")",
            _op("insert", "update", "delete"),
            "n div 10",
            "n % 10",
            "date_format(committed, \"yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'\")",
        ),
        options={"payload": "value"},
        spark_schema=(
            f"data struct<{SPARK_IMAGE.format(time='string')}>, metadata struct<operation: string,"
            " timestamp: string, `record-type`: string, `schema-name`: string,"
            " `table-name`: string, `transaction-id`: bigint, `transaction-record-id`: bigint,"
            " `commit-timestamp`: string>"
        ),
        duck=_duck(
            '{"data":IMAGE,"metadata":{"operation":"VARCHAR","commit-timestamp":"TIMESTAMP",'
            '"transaction-id":"BIGINT","transaction-record-id":"BIGINT","record-type":"VARCHAR",'
            '"schema-name":"VARCHAR","table-name":"VARCHAR"}}'.replace("IMAGE", DUCK_IMAGE),
            _duck_op("m.metadata.operation", "insert", "update", "delete")
            + ', epoch_us(m.metadata."commit-timestamp") * 16'
            ' + m.metadata."transaction-record-id" as seq, m.metadata."commit-timestamp" as ts, '
            + _duck_image("m.data"),
        ),
    ),
    "goldengate": Format(
        message=_text(
            '{"table":"SHOP.ORDERS","op_type":"%s","op_ts":"%s","current_ts":"%s","pos":"%s",'
            '"primary_keys":["id"]%s%s}',
            "op",
            COMMITTED,
            COMMITTED,
            "lpad(n, 20, '0')",
            f"if(op = 'I', '', concat(',\"before\":', if(op = 'D', {ROW}, {KEY})))",
            f"if(op = 'D', '', concat(',\"after\":', {ROW}))",
        ),
        spark_schema=(
            "table string, op_type string, op_ts string, pos string,"
            f" before struct<{SPARK_IMAGE.format(time='string')}>,"
            f" after struct<{SPARK_IMAGE.format(time='string')}>"
        ),
        duck=_duck(
            '{"table":"VARCHAR","op_type":"VARCHAR","op_ts":"TIMESTAMP","pos":"VARCHAR",'
            '"before":IMAGE,"after":IMAGE}'.replace("IMAGE", DUCK_IMAGE),
            "m.op_type as op, try_cast(m.pos as DECIMAL(38,0)) as seq, m.op_ts as ts,"
            " " + _duck_image(LAST_IMAGE),
        ),
    ),
    "maxwell": Format(
        message=_text(
            '{"database":"shop","table":"orders","type":"%s","ts":%d,"xid":%d,"xoffset":%d,'
            '"position":"mysql-bin.000003:%d","data":%s%s}',
            _op("insert", "update", "delete"),
            "unix_seconds(committed)",
            "n div 10",
            "n % 10",
            "n",
            ROW,
            "if(op = 'U', ',\"old\":{\"quantity\":7}', '')",
        ),
        spark_schema=(
            "database string, table string, type string, ts bigint, xid bigint, xoffset bigint,"
            f" position string, data struct<{SPARK_IMAGE.format(time='string')}>,"
            f" old struct<{SPARK_IMAGE.format(time='string')}>"
        ),
        duck=_duck(
            '{"database":"VARCHAR","table":"VARCHAR","type":"VARCHAR","ts":"BIGINT","xid":"BIGINT",'
            '"xoffset":"BIGINT","position":"VARCHAR","data":IMAGE,"old":IMAGE}'.replace(
                "IMAGE", DUCK_IMAGE
            ),
            _duck_op("m.type", "insert", "update", "delete")
            + ", [m.ts, 1, try_cast(split_part(split_part(m.position, ':', 1), '.', 2) as BIGINT),"
            " try_cast(split_part(m.position, ':', 2) as BIGINT), m.xid, m.xoffset] as seq,"
            " make_timestamp(m.ts * 1000000) as ts, " + _duck_image("m.data"),
        ),
    ),
    "canal": Format(
        message=_text(
            '{"data":[%s],%s"type":"%s","database":"shop","table":"orders","pkNames":["id"],'
            '"isDdl":false,"es":%d,"ts":%d,"id":%d,"sql":""}',
            TEXT_ROW,
            'if(op = \'U\', \'"old":[{"quantity":"7"}],\', \'"old":null,\')',
            _op("INSERT", "UPDATE", "DELETE"),
            "unix_millis(committed)",
            "unix_millis(committed)",
            "n div 10",
        ),
        options={"sequence_by": "offset"},
        spark_schema=(
            "database string, table string, type string, isDdl boolean, es bigint,"
            f" data array<struct<{SPARK_IMAGE.format(time='string').replace('bigint', 'string')}>>,"
            f" old array<struct<{SPARK_IMAGE.format(time='string')}>>"
        ),
        duck=(
            "select "
            + _duck_op("m.type", "INSERT", "UPDATE", "DELETE")
            + ', "offset" as seq, make_timestamp(m.es * 1000) as ts, '
            + _duck_image("d")
            + ' from (select m, "offset", unnest(m.data) as d from (select "offset",'
            ' from_json(value, \'{"database":"VARCHAR","table":"VARCHAR","type":"VARCHAR",'
            '"isDdl":"BOOLEAN",'
            '"es":"BIGINT","data":[IMAGE],"old":[IMAGE]}\') as m from {events}))'.replace(
                "IMAGE", DUCK_IMAGE
            )
        ),
        columns=("n as offset",),
    ),
}
