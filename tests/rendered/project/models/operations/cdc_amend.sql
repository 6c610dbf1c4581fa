{{ config(meta={'tables': ['history_flagged']}) }}
{{ amended_rows(ref('history_flagged'), "status = 'old'", {'status': "'closed'", 'amount': 'amount / 2'}) }}
