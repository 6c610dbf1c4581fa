-- query
select try_cast('7' as int) is not null;

-- query
select try_cast('2026-12-01 08:00:00' as timestamp) is not null;

-- query
select count(distinct named_keys.key_hash), count(distinct listed_keys.key_hash) from (select sha2(to_json(array('raw.masked', cast(`id` as string))), 256) as key_hash from (select distinct `id` from (select `id` from (select sha2(concat(__cdc_outer_key, unhex(sha2(concat(__cdc_inner_key, cast(cast(cast(cast('7' as int) as bigint) as string) as binary)), 256))), 256) as `id` from (select
    unhex(array_join(transform(__cdc_bytes, byte -> lpad(hex(byte ^ 54), 2, '0')), '')) as __cdc_inner_key,
    unhex(array_join(transform(__cdc_bytes, byte -> lpad(hex(byte ^ 92), 2, '0')), '')) as __cdc_outer_key
from (
    select transform(sequence(1, 127, 2), at -> cast(conv(substr(__cdc_hex, at, 2), 16, 10) as int)) as __cdc_bytes
    from (
        select rpad(if(octet_length(__cdc_salt) > 64, sha2(__cdc_salt, 256), hex(__cdc_salt)), 128, '0') as __cdc_hex
        from (
            select if(length(__cdc_given_salt) >= 16, __cdc_given_salt, raise_error('cdc: raw.masked masks columns, and the environment variable CDC_SECRET_SALT has no text of 16 characters or more where Spark runs. Set it there, and start Spark again.')) as __cdc_salt
            from (select reflect('java.lang.System', 'getenv', 'CDC_SECRET_SALT') as __cdc_given_salt) as given_salt
        ) as salt
    ) as hex_key
) as key_bytes) as mask_keys) as given_key) as found_keys) as returning) as named_keys left join (select key_hash from app.cdc_erasures where table_name = 'raw.masked' and is_done) as listed_keys on named_keys.key_hash = listed_keys.key_hash;

-- query
merge into app.cdc_erasures as DBT_INTERNAL_DEST
using (select distinct key_hash, '2026-12-01 08:00:00' as counts_from from (select sha2(to_json(array('raw.masked', cast(`id` as string))), 256) as key_hash from (select distinct `id` from (select `id` from (select sha2(concat(__cdc_outer_key, unhex(sha2(concat(__cdc_inner_key, cast(cast(cast(cast('7' as int) as bigint) as string) as binary)), 256))), 256) as `id` from (select
    unhex(array_join(transform(__cdc_bytes, byte -> lpad(hex(byte ^ 54), 2, '0')), '')) as __cdc_inner_key,
    unhex(array_join(transform(__cdc_bytes, byte -> lpad(hex(byte ^ 92), 2, '0')), '')) as __cdc_outer_key
from (
    select transform(sequence(1, 127, 2), at -> cast(conv(substr(__cdc_hex, at, 2), 16, 10) as int)) as __cdc_bytes
    from (
        select rpad(if(octet_length(__cdc_salt) > 64, sha2(__cdc_salt, 256), hex(__cdc_salt)), 128, '0') as __cdc_hex
        from (
            select if(length(__cdc_given_salt) >= 16, __cdc_given_salt, raise_error('cdc: raw.masked masks columns, and the environment variable CDC_SECRET_SALT has no text of 16 characters or more where Spark runs. Set it there, and start Spark again.')) as __cdc_salt
            from (select reflect('java.lang.System', 'getenv', 'CDC_SECRET_SALT') as __cdc_given_salt) as given_salt
        ) as salt
    ) as hex_key
) as key_bytes) as mask_keys) as given_key) as found_keys) as returning) as returning_hashes) as DBT_INTERNAL_SOURCE
on DBT_INTERNAL_DEST.`key_hash` <=> DBT_INTERNAL_SOURCE.`key_hash`
    and (table_name = 'raw.masked' and is_done)
when matched then update set counts_from = DBT_INTERNAL_SOURCE.counts_from;
