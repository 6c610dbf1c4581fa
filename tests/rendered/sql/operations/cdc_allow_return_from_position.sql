-- query
select try_cast('A-1' as string) is not null;

-- query
select try_cast('40' as string) is not null;

-- query
select count(distinct named_keys.key_hash), count(distinct listed_keys.key_hash) from (select sha2(to_json(array('raw.stock', cast(`sku` as string))), 256) as key_hash from (select distinct `sku` from (select `sku` from (select cast('A-1' as string) as `sku`) as given_key) as found_keys) as returning) as named_keys left join (select key_hash from app.cdc_erasures where table_name = 'raw.stock' and is_done) as listed_keys on named_keys.key_hash = listed_keys.key_hash;

-- query
merge into app.cdc_erasures as DBT_INTERNAL_DEST
using (select distinct key_hash, '40' as counts_from from (select sha2(to_json(array('raw.stock', cast(`sku` as string))), 256) as key_hash from (select distinct `sku` from (select `sku` from (select cast('A-1' as string) as `sku`) as given_key) as found_keys) as returning) as returning_hashes) as DBT_INTERNAL_SOURCE
on DBT_INTERNAL_DEST.`key_hash` <=> DBT_INTERNAL_SOURCE.`key_hash`
    and (table_name = 'raw.stock' and is_done)
when matched then update set counts_from = DBT_INTERNAL_SOURCE.counts_from;
