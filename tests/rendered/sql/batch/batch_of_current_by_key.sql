with published_changes as (
    select * from step_published
),

touched_keys as (
    select `id`
    from published_changes
    where _is_open and _is_visible
    union
    select __cdc_former_key.`id`
    from published_changes
    where _was_open
),

changed_rows as (
    select
        touched_keys.`id`,
        open_versions.* except (`id`),
        open_versions.dbt_scd_id is null as __cdc_is_vacated
    from touched_keys
    left join (select * from published_changes where _is_open) as open_versions
        on touched_keys.`id` <=> open_versions.`id`
    where open_versions.dbt_scd_id is null or open_versions._is_visible
)

select
    `id`,
    `name`,
    `_cdc_created_at`,
    dbt_updated_at as `_cdc_updated_at`,
    `_cdc_seq`,
    if(__cdc_is_vacated, 'D', 'U') as _current_op,
    (select bool_or(_was_open) from published_changes) as _is_known
from changed_rows
