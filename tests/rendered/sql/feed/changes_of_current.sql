with changes as (
    select
        * except (`_change_type`, `_commit_version`, `_commit_timestamp`),
        _commit_version,
        _commit_timestamp,
        _change_type in ('delete', 'update_preimage') as _cdc_is_before
    from table_changes('app.current_of_history', 0)
),

row_images as (
    select
        *,
        to_json(struct(* except (_commit_version, _commit_timestamp, _cdc_is_before)), map('ignoreNullFields', 'false', 'timestampFormat', "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", 'timestampNTZFormat', "yyyy-MM-dd'T'HH:mm:ss.SSSSSS")) as _cdc_image
    from changes
),

counted_images as (
    select
        *,
        sum(if(_cdc_is_before, -1, 1)) over (partition by _commit_version, `order_id`, `line`, _cdc_image) as _cdc_gained,
        row_number() over (partition by _commit_version, `order_id`, `line`, _cdc_image, _cdc_is_before order by _commit_timestamp) as _cdc_number
    from row_images
),

effective_changes as (
    select
        *,
        max(_cdc_is_before) over (partition by _commit_version, `order_id`, `line`)
        and not min(_cdc_is_before) over (partition by _commit_version, `order_id`, `line`) as _cdc_is_update
    from counted_images
    where _cdc_number <= if(_cdc_is_before, -_cdc_gained, _cdc_gained)
)

select
    * except (_cdc_is_before, _cdc_image, _cdc_gained, _cdc_number, _cdc_is_update),
    case
        when _cdc_is_update then if(_cdc_is_before, '-U', '+U')
        else if(_cdc_is_before, '-D', '+I')
    end as _row_kind
from effective_changes
