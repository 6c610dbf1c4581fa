select *
from app.audit_of_history
where events_read <> events_applied + events_duplicate + events_superseded + events_quarantined
