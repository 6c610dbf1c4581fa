with row_images as (
    select
        to_json(struct(`order_id`, `line`), map('ignoreNullFields', 'false', 'timestampFormat', "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", 'timestampNTZFormat', "yyyy-MM-dd'T'HH:mm:ss.SSSSSS", 'timeZone', 'UTC')) as key,
        struct(* except (`_row_kind`, `_commit_version`, `_commit_timestamp`)) as _cdc_row,
        _row_kind,
        _commit_version,
        _commit_timestamp
    from app.changes_of_current
),

paired_images as (
    select
        *,
        lag(_cdc_row) over (partition by _commit_version, key order by _row_kind desc) as _cdc_row_before
    from row_images
),

events as (
    select
        key,
        to_json(struct(
            case _row_kind when '+U' then _cdc_row_before when '-D' then _cdc_row end as before,
            if(_row_kind = '-D', null, _cdc_row) as after,
            struct(
                'delta' as connector,
                'it\'s' as name,
                unix_millis(_commit_timestamp) as ts_ms,
                unix_micros(_commit_timestamp) as ts_us,
                'false' as snapshot,
                'app' as db,
                'app' as `schema`,
                'current_of_history' as `table`,
                _commit_version as commit_version,
                if(_row_kind = '-D', 0, 1) as ord
            ) as source,
            case _row_kind when '+I' then 'c' when '+U' then 'u' when '-D' then 'd' end as op,
            unix_millis(_commit_timestamp) as ts_ms
        ), map('ignoreNullFields', 'false', 'timestampFormat', "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", 'timestampNTZFormat', "yyyy-MM-dd'T'HH:mm:ss.SSSSSS", 'timeZone', 'UTC')) as value,
        _commit_version,
        _commit_timestamp,
        if(_row_kind = '-D', 0, 1) as _position
    from paired_images
    where _row_kind <> '-U'
)

select
    key,
    value,
    _commit_version,
    _commit_timestamp,
    _position
from events
