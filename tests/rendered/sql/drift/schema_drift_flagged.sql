with carried_columns as (
    select
        inline(array(struct('order_id', 'bigint'), struct('line', 'int'), struct('status', 'string'), struct('amount', 'decimal(12,2)'), struct('undeclared', 'string'))) as (_name, _type),
        cast(null as bigint) as _arrived
),

known_columns as (
    select inline(array(struct('order_id', 'declared'), struct('line', 'declared'), struct('status', 'declared'), struct('amount', 'declared'))) as (column_name, _finding)
),

findings as (
    select
        coalesce(known_columns.column_name, carried_columns._name) as column_name,
        carried_columns._type as source_type,
        case
            when carried_columns._name is null and known_columns._finding = 'declared' then 'declared, and no event has it'
            else coalesce(known_columns._finding, 'not declared')
        end as finding,
        count(carried_columns._name) as events,
        min(carried_columns._arrived) as first_arrived,
        max(carried_columns._arrived) as last_arrived,
        cast(null as string) as ddl
    from carried_columns
    full outer join known_columns on carried_columns._name = known_columns.column_name
    group by all
)

select * from findings
where events > 0 or finding = 'declared, and no event has it'
