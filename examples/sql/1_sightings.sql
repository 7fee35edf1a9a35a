-- One row per video and sighting, with the views gained since the previous one.
create or replace table sightings as
with seen as (
    select video_id, observed_at, max(view_count) as views, any_value(_job) as job
    from outlierd.outliers_history
    where view_count is not null
    group by video_id, observed_at
)
select *,
    views - lag(views) over video as gained,
    epoch(observed_at - lag(observed_at) over video) / 3600 as hours
from seen
window video as (partition by video_id order by observed_at);
