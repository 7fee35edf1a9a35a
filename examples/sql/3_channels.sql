-- One row per channel: how often it beats its own average, and by how much.
create or replace table channels as
select channel_id, any_value(channel_title) as channel_title, count(*) as videos,
    count(*) filter (where ratio >= 3) as outliers, median(ratio) as median_ratio, max(ratio) as best_ratio
from videos
group by channel_id;
