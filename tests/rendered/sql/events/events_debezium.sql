with raw_events as (
    select
        *,
        cast(`value` as string) as __cdc_payload,
        cast(null as string) as __cdc_origin,
        cast(kafka_offset as bigint) as __cdc_arrived,
        cast(null as string) as __cdc_raw_problem
    from raw.debezium
),

read_events as (
    with messages as (
        select
            *,
            _message is null or _message._corrupt_record is not null as __cdc_is_unreadable
        from (
            select
                *,
                from_json(__cdc_payload, 'schema struct<fields: array<struct<field: string, name: string, parameters: map<string, string>, fields: array<struct<field: string, name: string, parameters: map<string, string>>>>>>, payload struct<op string, before map<string, variant>, after map<string, variant>, source struct<db: string, schema: string, table: string, ts_ms: string, ts_us: string, lsn: string, sequence: string, file: string, pos: string, row: string, commit_lsn: string, change_lsn: string, event_serial_no: string, scn: string, commit_scn: string, rs_id: string, ssn: string, collection: string, ord: string, commit_version: string>, transaction struct<total_order: string>, __op string, __deleted string>, op string, before map<string, variant>, after map<string, variant>, source struct<db: string, schema: string, table: string, ts_ms: string, ts_us: string, lsn: string, sequence: string, file: string, pos: string, row: string, commit_lsn: string, change_lsn: string, event_serial_no: string, scn: string, commit_scn: string, rs_id: string, ssn: string, collection: string, ord: string, commit_version: string>, transaction struct<total_order: string>, __op string, __deleted string, _corrupt_record string', map('columnNameOfCorruptRecord', '_corrupt_record')) as _message
            from raw_events
        ) as parsed_events
    ),

    opened_messages as (
        select
            *,
            case
                when coalesce(_message.__op, _message.__deleted, _message.payload.__op, _message.payload.__deleted) is not null then get(transform(
            array(coalesce(from_json(__cdc_payload, 'payload map<string, variant>').payload, from_json(__cdc_payload, 'map<string, variant>'))),
            flat -> struct(
                if(coalesce(lower(cast(flat['__deleted'] as string)) = 'true' or cast(flat['__op'] as string) = 'd', false), 'd', coalesce(cast(flat['__op'] as string), 'u')) as op,
                if(coalesce(lower(cast(flat['__deleted'] as string)) = 'true' or cast(flat['__op'] as string) = 'd', false), flat, null) as before,
                if(coalesce(lower(cast(flat['__deleted'] as string)) = 'true' or cast(flat['__op'] as string) = 'd', false), null, flat) as after,
                struct(
                    cast(coalesce(flat['__db'], flat['__source_db']) as string) as db,
                    cast(coalesce(flat['__schema'], flat['__source_schema']) as string) as schema,
                    cast(coalesce(flat['__table'], flat['__source_table']) as string) as table,
                    cast(coalesce(flat['__ts_ms'], flat['__source_ts_ms']) as string) as ts_ms,
                    cast(coalesce(flat['__ts_us'], flat['__source_ts_us']) as string) as ts_us,
                    cast(coalesce(flat['__lsn'], flat['__source_lsn']) as string) as lsn,
                    cast(coalesce(flat['__sequence'], flat['__source_sequence']) as string) as sequence,
                    cast(coalesce(flat['__file'], flat['__source_file']) as string) as file,
                    cast(coalesce(flat['__pos'], flat['__source_pos']) as string) as pos,
                    cast(coalesce(flat['__row'], flat['__source_row']) as string) as row,
                    cast(coalesce(flat['__commit_lsn'], flat['__source_commit_lsn']) as string) as commit_lsn,
                    cast(coalesce(flat['__change_lsn'], flat['__source_change_lsn']) as string) as change_lsn,
                    cast(coalesce(flat['__event_serial_no'], flat['__source_event_serial_no']) as string) as event_serial_no,
                    cast(coalesce(flat['__scn'], flat['__source_scn']) as string) as scn,
                    cast(coalesce(flat['__commit_scn'], flat['__source_commit_scn']) as string) as commit_scn,
                    cast(coalesce(flat['__rs_id'], flat['__source_rs_id']) as string) as rs_id,
                    cast(coalesce(flat['__ssn'], flat['__source_ssn']) as string) as ssn,
                    cast(coalesce(flat['__collection'], flat['__source_collection']) as string) as collection,
                    cast(coalesce(flat['__ord'], flat['__source_ord']) as string) as ord,
                    cast(coalesce(flat['__commit_version'], flat['__source_commit_version']) as string) as commit_version
                ) as source,
                cast(flat['__transaction_total_order'] as string) as total_order,
                flat is null as is_corrupt,
                false as is_whole,
                cast(null as string) as problem
            )
        ), 0)
                when coalesce(_message.payload.source.collection, _message.source.collection) is not null
                    then get(transform(
                            transform(
                                array(from_json(
                                    coalesce(get_json_object(__cdc_payload, '$.payload'), __cdc_payload),
                                    'op string, before string, after string, filter string, updateDescription struct<removedFields: array<string>, updatedFields: string, truncatedArrays: array<struct<field: string>>>, source struct<db: string, schema: string, table: string, ts_ms: string, ts_us: string, lsn: string, sequence: string, file: string, pos: string, row: string, commit_lsn: string, change_lsn: string, event_serial_no: string, scn: string, commit_scn: string, rs_id: string, ssn: string, collection: string, ord: string, commit_version: string>, transaction struct<total_order: string>, _corrupt_record string', map('columnNameOfCorruptRecord', '_corrupt_record')
                                )),
                                event -> struct(
                                    event,
                                    transform_values(from_json(event.before, 'map<string, variant>'), (name, value) -> if(
                            contains(to_json(value), '"$'),
                            coalesce(
                                try_parse_json(coalesce(try_variant_get(value, '$["$numberLong"]', 'string'), try_variant_get(value, '$["$numberInt"]', 'string'), try_variant_get(value, '$["$numberDecimal"]', 'string'), try_variant_get(value, '$["$numberDouble"]', 'string'))),
                                cast(coalesce(
                                    coalesce(try_variant_get(value, '$["$numberLong"]', 'string'), try_variant_get(value, '$["$numberInt"]', 'string'), try_variant_get(value, '$["$numberDecimal"]', 'string'), try_variant_get(value, '$["$numberDouble"]', 'string')), concat(cast(case
                            when try_multiply(try_cast(coalesce(try_variant_get(value, '$["$date"]["$numberLong"]', 'string'), try_variant_get(value, '$["$date"]', 'string')) as bigint), 1000L) between -62135596800000000 and 253402300799999999 then
                                timestampadd(microsecond, try_multiply(try_cast(coalesce(try_variant_get(value, '$["$date"]["$numberLong"]', 'string'), try_variant_get(value, '$["$date"]', 'string')) as bigint), 1000L), timestamp_ntz'1970-01-01 00:00:00')
                        end as string), 'Z'), coalesce(try_variant_get(value, '$["$date"]["$numberLong"]', 'string'), try_variant_get(value, '$["$date"]', 'string')), try_variant_get(value, '$["$binary"]["base64"]', 'string'), try_variant_get(value, '$["$binary"]', 'string'),
                                    try_variant_get(value, '$["$oid"]', 'string'), try_variant_get(value, '$["$uuid"]', 'string'), try_variant_get(value, '$["$symbol"]', 'string')
                                ) as variant),
                                value
                            ),
                            value
                        )) as before,
                                    transform_values(from_json(event.after, 'map<string, variant>'), (name, value) -> if(
                            contains(to_json(value), '"$'),
                            coalesce(
                                try_parse_json(coalesce(try_variant_get(value, '$["$numberLong"]', 'string'), try_variant_get(value, '$["$numberInt"]', 'string'), try_variant_get(value, '$["$numberDecimal"]', 'string'), try_variant_get(value, '$["$numberDouble"]', 'string'))),
                                cast(coalesce(
                                    coalesce(try_variant_get(value, '$["$numberLong"]', 'string'), try_variant_get(value, '$["$numberInt"]', 'string'), try_variant_get(value, '$["$numberDecimal"]', 'string'), try_variant_get(value, '$["$numberDouble"]', 'string')), concat(cast(case
                            when try_multiply(try_cast(coalesce(try_variant_get(value, '$["$date"]["$numberLong"]', 'string'), try_variant_get(value, '$["$date"]', 'string')) as bigint), 1000L) between -62135596800000000 and 253402300799999999 then
                                timestampadd(microsecond, try_multiply(try_cast(coalesce(try_variant_get(value, '$["$date"]["$numberLong"]', 'string'), try_variant_get(value, '$["$date"]', 'string')) as bigint), 1000L), timestamp_ntz'1970-01-01 00:00:00')
                        end as string), 'Z'), coalesce(try_variant_get(value, '$["$date"]["$numberLong"]', 'string'), try_variant_get(value, '$["$date"]', 'string')), try_variant_get(value, '$["$binary"]["base64"]', 'string'), try_variant_get(value, '$["$binary"]', 'string'),
                                    try_variant_get(value, '$["$oid"]', 'string'), try_variant_get(value, '$["$uuid"]', 'string'), try_variant_get(value, '$["$symbol"]', 'string')
                                ) as variant),
                                value
                            ),
                            value
                        )) as after,
                                    map_filter(transform_values(from_json(event.filter, 'map<string, variant>'), (name, value) -> if(
                            contains(to_json(value), '"$'),
                            coalesce(
                                try_parse_json(coalesce(try_variant_get(value, '$["$numberLong"]', 'string'), try_variant_get(value, '$["$numberInt"]', 'string'), try_variant_get(value, '$["$numberDecimal"]', 'string'), try_variant_get(value, '$["$numberDouble"]', 'string'))),
                                cast(coalesce(
                                    coalesce(try_variant_get(value, '$["$numberLong"]', 'string'), try_variant_get(value, '$["$numberInt"]', 'string'), try_variant_get(value, '$["$numberDecimal"]', 'string'), try_variant_get(value, '$["$numberDouble"]', 'string')), concat(cast(case
                            when try_multiply(try_cast(coalesce(try_variant_get(value, '$["$date"]["$numberLong"]', 'string'), try_variant_get(value, '$["$date"]', 'string')) as bigint), 1000L) between -62135596800000000 and 253402300799999999 then
                                timestampadd(microsecond, try_multiply(try_cast(coalesce(try_variant_get(value, '$["$date"]["$numberLong"]', 'string'), try_variant_get(value, '$["$date"]', 'string')) as bigint), 1000L), timestamp_ntz'1970-01-01 00:00:00')
                        end as string), 'Z'), coalesce(try_variant_get(value, '$["$date"]["$numberLong"]', 'string'), try_variant_get(value, '$["$date"]', 'string')), try_variant_get(value, '$["$binary"]["base64"]', 'string'), try_variant_get(value, '$["$binary"]', 'string'),
                                    try_variant_get(value, '$["$oid"]', 'string'), try_variant_get(value, '$["$uuid"]', 'string'), try_variant_get(value, '$["$symbol"]', 'string')
                                ) as variant),
                                value
                            ),
                            value
                        )), (name, value) -> name = '_id') as key,
                                    map_filter(
                                        coalesce(transform_values(from_json(event.updateDescription.updatedFields, 'map<string, variant>'), (name, value) -> if(
                            contains(to_json(value), '"$'),
                            coalesce(
                                try_parse_json(coalesce(try_variant_get(value, '$["$numberLong"]', 'string'), try_variant_get(value, '$["$numberInt"]', 'string'), try_variant_get(value, '$["$numberDecimal"]', 'string'), try_variant_get(value, '$["$numberDouble"]', 'string'))),
                                cast(coalesce(
                                    coalesce(try_variant_get(value, '$["$numberLong"]', 'string'), try_variant_get(value, '$["$numberInt"]', 'string'), try_variant_get(value, '$["$numberDecimal"]', 'string'), try_variant_get(value, '$["$numberDouble"]', 'string')), concat(cast(case
                            when try_multiply(try_cast(coalesce(try_variant_get(value, '$["$date"]["$numberLong"]', 'string'), try_variant_get(value, '$["$date"]', 'string')) as bigint), 1000L) between -62135596800000000 and 253402300799999999 then
                                timestampadd(microsecond, try_multiply(try_cast(coalesce(try_variant_get(value, '$["$date"]["$numberLong"]', 'string'), try_variant_get(value, '$["$date"]', 'string')) as bigint), 1000L), timestamp_ntz'1970-01-01 00:00:00')
                        end as string), 'Z'), coalesce(try_variant_get(value, '$["$date"]["$numberLong"]', 'string'), try_variant_get(value, '$["$date"]', 'string')), try_variant_get(value, '$["$binary"]["base64"]', 'string'), try_variant_get(value, '$["$binary"]', 'string'),
                                    try_variant_get(value, '$["$oid"]', 'string'), try_variant_get(value, '$["$uuid"]', 'string'), try_variant_get(value, '$["$symbol"]', 'string')
                                ) as variant),
                                value
                            ),
                            value
                        )), from_json('{}', 'map<string, variant>')),
                                        (name, value) -> name <> '_id'
                                    ) as updated,
                                    coalesce(event.updateDescription.removedFields, cast(array() as array<string>)) as removed,
                                    coalesce(event.updateDescription.truncatedArrays.field, cast(array() as array<string>)) as truncated
                                )
                            ),
                            document -> struct(
                                document.event.op as op,
                                coalesce(document.before, if(document.event.op = 'd', document.key, null)) as before,
                                coalesce(document.after, if(
                                    document.event.op = 'u' and document.event.updateDescription is not null,
                                    map_concat(
                                        coalesce(document.key, from_json('{}', 'map<string, variant>')),
                                        document.updated,
                                        map_from_arrays(array_except(document.removed, array_append(map_keys(document.updated), '_id')), transform(array_except(document.removed, array_append(map_keys(document.updated), '_id')), name -> parse_json('null')))
                                    ),
                                    null
                                )) as after,
                                document.event.source as source,
                                document.event.transaction.total_order as total_order,
                                document.event is null or document.event._corrupt_record is not null as is_corrupt,
                                document.after is not null as is_whole,
                                if(document.after is null and document.event.op = 'u', get(transform(
                                    filter(
                                        concat(map_keys(document.updated), document.removed, transform(document.truncated, path -> concat(path, '.'))),
                                        path -> contains(path, '.') and array_contains(array('id', 'mail', 'email', 'e_mail', 'balance', 'born_on'), substring_index(path, '.', 1))
                                    ),
                                    path -> concat('a part of column ', substring_index(path, '.', 1), ' changed, and the event does not have the whole')
                                ), 0), null) as problem
                            )
                        ), 0)
                else struct(
                    coalesce(_message.payload.op, _message.op) as op,
                    coalesce(_message.payload.before, _message.before) as before,
                    coalesce(_message.payload.after, _message.after) as after,
                    coalesce(_message.payload.source, _message.source) as source,
                    coalesce(_message.payload.transaction, _message.transaction).total_order as total_order,
                    _message._corrupt_record is not null or (_message is null and __cdc_payload is not null) as is_corrupt,
                    false as is_whole,
                    cast(null as string) as problem
                )
            end as __cdc_event,
            contains(__cdc_payload, '__debezium_unavailable_value')
                or contains(__cdc_payload, base64(cast('__debezium_unavailable_value' as binary)))
                or contains(__cdc_payload, lower(hex('__debezium_unavailable_value'))) as __cdc_may_be_unavailable
        from messages
    )

    select
        *,
        case
            when __cdc_event.is_corrupt then null
            when __cdc_event.op in ('c', 'r') then 'I'
            when __cdc_event.op = 'u' then 'U'
            when __cdc_event.op = 'd' then 'D'
            when __cdc_event.op = 't' then 'T'
            when __cdc_event.op = 'm' or __cdc_payload is null or coalesce(
            __cdc_event.op is null
            and (
                json_object_keys(coalesce(get_json_object(__cdc_payload, '$.payload'), __cdc_payload)) = array('ts_ms')
                or (get_json_object(coalesce(get_json_object(__cdc_payload, '$.payload'), __cdc_payload), '$.status') in ('BEGIN', 'END') and get_json_object(coalesce(get_json_object(__cdc_payload, '$.payload'), __cdc_payload), '$.id') is not null)
                or get_json_object(coalesce(get_json_object(__cdc_payload, '$.payload'), __cdc_payload), '$.ddl') is not null
                or array_sort(json_object_keys(__cdc_payload)) = array('payload', 'schema')
                and get_json_object(__cdc_payload, '$.payload') is null
            ),
            false
        ) then 'M'
        end as __cdc_operation,
        if(
                __cdc_may_be_unavailable,
                map_filter(__cdc_event.after, (name, value) -> not coalesce(cast(value as string) in (
                '__debezium_unavailable_value',
                base64(cast('__debezium_unavailable_value' as binary)),
                lower(hex('__debezium_unavailable_value')),
                concat('["', '__debezium_unavailable_value', '"]'),
                concat('["', base64(cast('__debezium_unavailable_value' as binary)), '"]'),
                '[95,95,100,101,98,101,122,105,117,109,95,117,110,97,118,97,105,108,97,98,108,101,95,118,97,108,117,101]',
                '["b68a35a7-17ad-35b3-af2a-ae46edb4545a"]',
                concat('{"', '__debezium_unavailable_value', '":"', '__debezium_unavailable_value', '"}')
            ), false)),
                __cdc_event.after
            ) as __cdc_image,
        case
            when __cdc_event.op = 'u' then if(
                    __cdc_may_be_unavailable,
                    map_filter(__cdc_event.before, (name, value) -> not coalesce(cast(value as string) in (
                    '__debezium_unavailable_value',
                    base64(cast('__debezium_unavailable_value' as binary)),
                    lower(hex('__debezium_unavailable_value')),
                    concat('["', '__debezium_unavailable_value', '"]'),
                    concat('["', base64(cast('__debezium_unavailable_value' as binary)), '"]'),
                    '[95,95,100,101,98,101,122,105,117,109,95,117,110,97,118,97,105,108,97,98,108,101,95,118,97,108,117,101]',
                    '["b68a35a7-17ad-35b3-af2a-ae46edb4545a"]',
                    concat('{"', '__debezium_unavailable_value', '":"', '__debezium_unavailable_value', '"}')
                ), false)),
                    __cdc_event.before
                )
            when __cdc_event.op = 'd' then __cdc_event.before
        end as __cdc_before,
        coalesce(__cdc_event.is_whole, false) as __cdc_is_whole,
        case
            when coalesce(try_cast(__cdc_event.source.lsn as bigint), try_cast(split_part(__cdc_event.source.sequence, '"', -2) as bigint)) is not null then array(
                coalesce(try_cast(split_part(__cdc_event.source.sequence, '"', 2) as bigint), coalesce(try_cast(__cdc_event.source.lsn as bigint), try_cast(split_part(__cdc_event.source.sequence, '"', -2) as bigint))), coalesce(try_cast(__cdc_event.source.lsn as bigint), try_cast(split_part(__cdc_event.source.sequence, '"', -2) as bigint)), coalesce(try_cast(__cdc_event.total_order as bigint), 0L)
            )
            when try_cast(substring_index(__cdc_event.source.file, '.', -1) as bigint) is not null and try_cast(__cdc_event.source.pos as bigint) is not null
                then array(try_cast(substring_index(__cdc_event.source.file, '.', -1) as bigint), try_cast(__cdc_event.source.pos as bigint), coalesce(try_cast(__cdc_event.source.row as bigint), 0L), coalesce(try_cast(__cdc_event.total_order as bigint), 0L))
            when __cdc_event.source.commit_lsn is not null then concat(
                case
            when __cdc_event.source.commit_lsn rlike '^ *(0x)?[0-9a-fA-F]{1,15}([:][0-9a-fA-F]{1,15}){2} *$'
                then transform(
                    split(regexp_replace(trim(__cdc_event.source.commit_lsn), '^0x', ''), '[:]'),
                    part -> try_cast(conv(part, 16, 10) as bigint)
                )
            else array_repeat(0L, 3)
        end,
                case
            when __cdc_event.source.change_lsn rlike '^ *(0x)?[0-9a-fA-F]{1,15}([:][0-9a-fA-F]{1,15}){2} *$'
                then transform(
                    split(regexp_replace(trim(__cdc_event.source.change_lsn), '^0x', ''), '[:]'),
                    part -> try_cast(conv(part, 16, 10) as bigint)
                )
            else array_repeat(0L, 3)
        end,
                array(coalesce(try_cast(__cdc_event.source.event_serial_no as bigint), 0L), coalesce(try_cast(__cdc_event.total_order as bigint), 0L))
            )
            when try_cast(__cdc_event.source.scn as bigint) is not null then concat(
                array(coalesce(try_cast(__cdc_event.source.commit_scn as bigint), try_cast(__cdc_event.source.scn as bigint)), try_cast(__cdc_event.source.scn as bigint)),
                case
            when __cdc_event.source.rs_id rlike '^ *(0x)?[0-9a-fA-F]{1,15}([.][0-9a-fA-F]{1,15}){2} *$'
                then transform(
                    split(regexp_replace(trim(__cdc_event.source.rs_id), '^0x', ''), '[.]'),
                    part -> try_cast(conv(part, 16, 10) as bigint)
                )
            else array_repeat(0L, 3)
        end,
                array(coalesce(try_cast(__cdc_event.source.ssn as bigint), 0L), coalesce(try_cast(__cdc_event.total_order as bigint), 0L))
            )
            when try_cast(__cdc_event.source.commit_version as bigint) is not null then array(try_cast(__cdc_event.source.commit_version as bigint), coalesce(try_cast(__cdc_event.source.ord as bigint), 0L), coalesce(try_cast(__cdc_event.total_order as bigint), 0L))
            when try_cast(__cdc_event.source.ts_ms as bigint) is not null and try_cast(__cdc_event.source.ord as bigint) is not null then array(try_cast(__cdc_event.source.ts_ms as bigint), try_cast(__cdc_event.source.ord as bigint), coalesce(try_cast(__cdc_event.total_order as bigint), 0L))
        end as __cdc_seq,
        coalesce(case
            when try_cast(__cdc_event.source.ts_us as bigint) between -62135596800000000 and 253402300799999999 then
                timestamp_micros(try_cast(__cdc_event.source.ts_us as bigint))
        end, case
            when try_multiply(try_cast(__cdc_event.source.ts_ms as bigint), 1000L) between -62135596800000000 and 253402300799999999 then
                timestamp_micros(try_multiply(try_cast(__cdc_event.source.ts_ms as bigint), 1000L))
        end) as __cdc_ts,
        case
            when __cdc_event.is_corrupt then 'unreadable payload'
            when __cdc_event.problem is not null then __cdc_event.problem
            when __cdc_event.op is null then 'no operation'
            when __cdc_event.op not in ('c', 'r', 'u', 'd', 't', 'm') then concat('unknown operation ', __cdc_event.op)
            when __cdc_event.op in ('c', 'r', 'u') and __cdc_event.after is null then 'no after image'
        end as __cdc_problem,
        case when nullif(coalesce(__cdc_event.source.table, __cdc_event.source.collection), '') is not null then concat_ws('.', __cdc_event.source.db, __cdc_event.source.schema, coalesce(__cdc_event.source.table, __cdc_event.source.collection)) end as __cdc_table
    from opened_messages
),

decoded_events as (
    select
        __cdc_payload as _payload,
        __cdc_origin as _origin,
        __cdc_arrived as _arrived,
        __cdc_raw_problem as _cdc_raw_problem,
        __cdc_operation as _cdc_operation,
        __cdc_image as _cdc_image,
        __cdc_before as _cdc_before,
        _message,
        __cdc_is_whole as _cdc_is_whole,
        __cdc_table as _cdc_table,
        __cdc_seq as _seq,
        __cdc_ts as _ts,
        __cdc_problem as _cdc_problem
    from read_events
),

held_events as (
    select
        _payload,
        _origin,
        _arrived,
        _cdc_raw_problem,
        _message,
        decoded.*
    from (
        select
            * except (_cdc_operation, _cdc_image, _cdc_before, _seq, _ts, _cdc_problem, _cdc_is_whole, _cdc_table),
            struct(_cdc_operation, _cdc_image, _cdc_before, _seq, _ts, _cdc_problem, _cdc_is_whole, _cdc_table) as __cdc_decoded
        from decoded_events
    ) as decoded_events
    lateral view outer inline(array(__cdc_decoded)) decoded as _cdc_operation, _cdc_image, _cdc_before, _seq, _ts, _cdc_problem, _cdc_is_whole, _cdc_table
),

given_events as (
    select *
    from (
        select
            *,
            struct(cast(case when _cdc_operation <> 'D' and (coalesce(map_contains_key(_cdc_image, 'id'), false) or _cdc_is_whole) then _cdc_image['id'] else _cdc_before['id'] end as string), cast(case when _cdc_operation <> 'D' and ((coalesce(map_contains_key(_cdc_image, 'mail'), false) or coalesce(map_contains_key(_cdc_image, 'email'), false) or coalesce(map_contains_key(_cdc_image, 'e_mail'), false)) or _cdc_is_whole) then case when cast(_cdc_image['mail'] as string) is not null then _cdc_image['mail'] else case when cast(_cdc_image['email'] as string) is not null then _cdc_image['email'] else _cdc_image['e_mail'] end end else case when cast(_cdc_before['mail'] as string) is not null then _cdc_before['mail'] else case when cast(_cdc_before['email'] as string) is not null then _cdc_before['email'] else _cdc_before['e_mail'] end end end as string), get(filter(coalesce(get(filter(_message.schema.fields, f -> f.field in ('after', 'before')), 0).fields, transform(_message.schema.fields, f -> struct(f.field, f.name, f.parameters))), f -> f.field in ('balance')), 0), nullif(to_json(case when _cdc_operation <> 'D' and (coalesce(map_contains_key(_cdc_image, 'balance'), false) or _cdc_is_whole) then _cdc_image['balance'] else _cdc_before['balance'] end), 'null'), get(filter(coalesce(get(filter(_message.schema.fields, f -> f.field in ('after', 'before')), 0).fields, transform(_message.schema.fields, f -> struct(f.field, f.name, f.parameters))), f -> f.field in ('born_on')), 0), cast(case when _cdc_operation <> 'D' and (coalesce(map_contains_key(_cdc_image, 'born_on'), false) or _cdc_is_whole) then _cdc_image['born_on'] else _cdc_before['born_on'] end as string), case when _cdc_operation = 'U' and (_cdc_before['id'] is not null and not is_variant_null(_cdc_before['id'])) and (cast(_cdc_before['id'] as string) is distinct from cast(_cdc_image['id'] as string)) then cast(_cdc_before['id'] as string) end) as __cdc_given
        from held_events
        where
            _cdc_operation is distinct from 'M'
            and coalesce(endswith(concat('.', _cdc_table), '.shop.customers'), true)
    ) as own_events
    lateral view outer inline(array(__cdc_given)) given as `__cdc_given_id`, `__cdc_given_mail`, `__cdc_field_balance`, `__cdc_given_balance`, `__cdc_field_born_on`, `__cdc_given_born_on`, `__cdc_given_old id`
),

typed_events as (
    select
        _payload,
        _origin,
        _arrived,
        _cdc_raw_problem,
        _cdc_problem,
        _cdc_is_whole,
        _cdc_table,
        _cdc_operation as _op,
        _seq,
        _ts,
        `__cdc_given_id`,
        `__cdc_given_mail`,
        `__cdc_field_balance`,
        `__cdc_given_balance`,
        `__cdc_field_born_on`,
        `__cdc_given_born_on`,
        `__cdc_given_old id`,
        `id`,
        `__cdc_old_id`,
        `mail`,
        `balance`,
        `born_on`,
        _unset
    from (
        select
            *,
            struct(try_cast(`__cdc_given_id` as int), try_cast(`__cdc_given_old id` as int), `__cdc_given_mail`, case when left(`__cdc_given_balance`, 1) in ('"', '{') then get(transform(array(get(transform(array(case
        when startswith(`__cdc_given_balance`, '{')
            then from_json(`__cdc_given_balance`, 'value string, scale int')
        when not startswith(`__cdc_given_balance`, '"') then null
        when `__cdc_field_balance`.name like '%.Decimal'
            then struct(trim(both '"' from `__cdc_given_balance`) as value, try_cast(`__cdc_field_balance`.parameters['scale'] as int) as scale)
        when `__cdc_field_balance` is null and length(trim(both '"' from `__cdc_given_balance`)) % 4 = 0 and try_to_binary(trim(both '"' from `__cdc_given_balance`), 'base64') is not null
            then struct(trim(both '"' from `__cdc_given_balance`) as value, if(try_cast(trim(both '"' from `__cdc_given_balance`) as double) is null, cast(2 as int), null) as scale)
    end), pair -> if(pair is null, trim(both '"' from `__cdc_given_balance`), get(transform(
        transform(
            transform(
                array(hex(try_to_binary(pair.value, 'base64'))),
                bytes -> if(length(bytes) between 2 and 32, lpad(bytes, 32, if(bytes >= '8', 'F', '0')), null)
            ),
            bytes -> cast(
                try_add(
                    try_multiply(
                        cast(conv(left(bytes, 16), 16, -10) as decimal(20, 0)), cast(18446744073709551616 as decimal(20, 0))
                    ),
                    cast(conv(right(bytes, 16), 16, 10) as decimal(20, 0))
                ) as string
            )
        ),
        number -> case
            when pair.scale not between -100 and 100 then null
            when pair.scale <= 0 then concat(number, repeat('0', -pair.scale))
            else concat(
                if(startswith(number, '-'), '-', ''),
                regexp_replace(
                    lpad(ltrim('-', number), greatest(length(ltrim('-', number)), pair.scale + 1), '0'),
                    concat('([0-9]{', pair.scale, '})$'),
                    '.$1'
                )
            )
        end
    ), 0))), 0)), number -> case when ((locate('.', number) = 0 or length(number) - locate('.', number) <= 2) and not contains(number, 'E') and not contains(number, 'e')) or length(rtrim('0', regexp_extract(number, '[.]([0-9]*)', 1))) - coalesce(try_cast(nullif(regexp_extract(number, '[eE]([-+]?[0-9]+)', 1), '') as int), 0) <= 2 or number rlike '^ *[-+]?[0.]+[eE]' then try_cast(number as decimal(12,2)) end), 0) else case when ((locate('.', `__cdc_given_balance`) = 0 or length(`__cdc_given_balance`) - locate('.', `__cdc_given_balance`) <= 2) and not contains(`__cdc_given_balance`, 'E') and not contains(`__cdc_given_balance`, 'e')) or length(rtrim('0', regexp_extract(`__cdc_given_balance`, '[.]([0-9]*)', 1))) - coalesce(try_cast(nullif(regexp_extract(`__cdc_given_balance`, '[eE]([-+]?[0-9]+)', 1), '') as int), 0) <= 2 or `__cdc_given_balance` rlike '^ *[-+]?[0.]+[eE]' then try_cast(`__cdc_given_balance` as decimal(12,2)) end end, case
        when try_cast(`__cdc_given_born_on` as bigint) is null then case when substr(if(length(`__cdc_given_born_on`) = 11, rtrim('Z', `__cdc_given_born_on`), `__cdc_given_born_on`), 5, 1) = '-' and length(if(length(`__cdc_given_born_on`) = 11, rtrim('Z', `__cdc_given_born_on`), `__cdc_given_born_on`)) >= 8 and not (locate('.', if(length(`__cdc_given_born_on`) = 11, rtrim('Z', `__cdc_given_born_on`), `__cdc_given_born_on`)) between 1 and length(if(length(`__cdc_given_born_on`) = 11, rtrim('Z', `__cdc_given_born_on`), `__cdc_given_born_on`)) - 7 and if(length(`__cdc_given_born_on`) = 11, rtrim('Z', `__cdc_given_born_on`), `__cdc_given_born_on`) rlike '[.][0-9]{6}[0-9]*[1-9]') and (length(if(length(`__cdc_given_born_on`) = 11, rtrim('Z', `__cdc_given_born_on`), `__cdc_given_born_on`)) <= 10 or try_cast(if(length(`__cdc_given_born_on`) = 11, rtrim('Z', `__cdc_given_born_on`), `__cdc_given_born_on`) as timestamp_ntz) = cast(try_cast(if(length(`__cdc_given_born_on`) = 11, rtrim('Z', `__cdc_given_born_on`), `__cdc_given_born_on`) as date) as timestamp_ntz)) then try_cast(if(length(`__cdc_given_born_on`) = 11, rtrim('Z', `__cdc_given_born_on`), `__cdc_given_born_on`) as date) end
        else get(transform(array(case substring_index(`__cdc_field_born_on`.name, '.', -1)
            when 'Timestamp' then try_multiply(try_cast(`__cdc_given_born_on` as bigint), 1000L)
            when 'MicroTimestamp' then try_cast(`__cdc_given_born_on` as bigint)
            when 'NanoTimestamp' then if(try_cast(`__cdc_given_born_on` as bigint) % 1000 = 0, try_cast(`__cdc_given_born_on` as bigint) div 1000, null)
            else try_multiply(try_cast(`__cdc_given_born_on` as bigint), 86400000000L)
        end), micros -> case
        when micros between -62135596800000000 and 253402300799999999 then
            if(micros % 86400000000 = 0, date_add(date'1970-01-01', cast(micros div 86400000000 as int)), null)
    end), 0)
    end, case when _cdc_operation in ('I', 'U') then array_except(array(case when not (coalesce(map_contains_key(_cdc_image, 'mail'), false) or coalesce(map_contains_key(_cdc_image, 'email'), false) or coalesce(map_contains_key(_cdc_image, 'e_mail'), false)) and not ((_cdc_before['mail'] is not null and not is_variant_null(_cdc_before['mail'])) or (_cdc_before['email'] is not null and not is_variant_null(_cdc_before['email'])) or (_cdc_before['e_mail'] is not null and not is_variant_null(_cdc_before['e_mail']))) and not _cdc_is_whole then 'mail' end, case when not coalesce(map_contains_key(_cdc_image, 'balance'), false) and not (_cdc_before['balance'] is not null and not is_variant_null(_cdc_before['balance'])) and not _cdc_is_whole then 'balance' end, case when not coalesce(map_contains_key(_cdc_image, 'born_on'), false) and not (_cdc_before['born_on'] is not null and not is_variant_null(_cdc_before['born_on'])) and not _cdc_is_whole then 'born_on' end), array(null)) else cast(array() as array<string>) end) as __cdc_typed
        from given_events
    ) as given_events
    lateral view outer inline(array(__cdc_typed)) typed as `id`, `__cdc_old_id`, `mail`, `balance`, `born_on`, _unset
),

identified_events as (
    select
        *,
        xxhash64(_op, _seq, case when `__cdc_given_balance` is not null or (_op in ('I', 'U') and not array_contains(_unset, 'balance') and not _cdc_is_whole) then 'balance' end, `__cdc_given_balance`, case when `__cdc_given_born_on` is not null or (_op in ('I', 'U') and not array_contains(_unset, 'born_on') and not _cdc_is_whole) then 'born_on' end, `__cdc_given_born_on`, case when `__cdc_given_mail` is not null or (_op in ('I', 'U') and not array_contains(_unset, 'mail') and not _cdc_is_whole) then 'e_mail' end, `__cdc_given_mail`, case when `__cdc_given_id` is not null or (_op in ('I', 'U') and not array_contains(_unset, 'id') and not _cdc_is_whole) then 'id' end, `__cdc_given_id`, cast(`_old_id` as bigint)) as _event_id
    from (
        select
            *,
            case when `__cdc_old_id` is distinct from `id` then `__cdc_old_id` end as `_old_id`,
            nullif(concat_ws('; ', coalesce(_cdc_raw_problem, _cdc_problem), case when coalesce(_cdc_raw_problem, _cdc_problem) is null and _cdc_table is null then 'no table name' end, case when coalesce(_cdc_raw_problem, _cdc_problem) is null and _seq is null then 'no sequence' end, case when coalesce(_cdc_raw_problem, _cdc_problem) is null and _ts is null then 'no event time' end, case when _arrived is null then 'no arrival' end, case when coalesce(_cdc_raw_problem, _cdc_problem) is null and _op in ('I', 'U', 'D') and `id` is null and cast(`__cdc_given_id` as string) is null then 'no value for key column id' end, case when `__cdc_given_old id` is not null and `__cdc_old_id` is null then concat('former value of key column id: ', left(`__cdc_given_old id`, 100), ' is not a int') end, case when _op in ('I', 'U', 'D') and `id` is null and cast(`__cdc_given_id` as string) is not null then concat('column id: ', left(cast(`__cdc_given_id` as string), 100), ' is not a int') end, case when _op in ('I', 'U', 'D') and `balance` is null and cast(`__cdc_given_balance` as string) is not null then concat('column balance: ', left(cast(`__cdc_given_balance` as string), 100), ' is not a decimal(12,2)') end, case when _op in ('I', 'U', 'D') and `born_on` is null and cast(`__cdc_given_born_on` as string) is not null then concat('column born_on: ', left(cast(`__cdc_given_born_on` as string), 100), ' is not a date') end, case when _op in ('I', 'U', 'D') and if(length(`__cdc_given_mail`) between 16 and 25, if(`__cdc_given_mail` rlike '^-?[0-9]+[.][0-9]+(E-?[0-9]+)?$', length(ltrim('0', regexp_replace(`__cdc_given_mail`, '[-.]|E.*', ''))) between 14 and 17 and replace(_payload, '.', '') rlike concat(left(ltrim('0', regexp_replace(`__cdc_given_mail`, '[-.]|E.*', '')), 13), if(contains(`__cdc_given_mail`, 'E'), '', '(?=[0-9]{20}|[0-9]+[eE])'), '[0-9]{4,}[1-9]'), false), false) then 'column mail: its number has more digits than can be read' end, case when _op in ('I', 'U', 'D') and if(length(`__cdc_given_balance`) between 16 and 25, if(`__cdc_given_balance` rlike '^-?[0-9]+[.][0-9]+(E-?[0-9]+)?$', length(ltrim('0', regexp_replace(`__cdc_given_balance`, '[-.]|E.*', ''))) between 14 and 17 and replace(_payload, '.', '') rlike concat(left(ltrim('0', regexp_replace(`__cdc_given_balance`, '[-.]|E.*', '')), 13), if(contains(`__cdc_given_balance`, 'E'), '', '(?=[0-9]{20}|[0-9]+[eE])'), '[0-9]{4,}[1-9]'), false), false) then 'column balance: its number has more digits than can be read' end), '') as _reason
        from typed_events
    ) as typed_events
)

select
    `id`,
    `mail`,
    `balance`,
    `born_on`,
    _op,
    _seq,
    _ts,
    _event_id,
    _unset,
    `_old_id`,
    _arrived
from identified_events
where _reason is null
