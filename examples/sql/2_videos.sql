-- One row per video: its latest numbers, and its speed over all sightings.
create or replace table videos as
select o.video_id, o.title, o.channel_id, o.channel_title, o._job as job, o.published_at,
    o.view_count, o.average_views_ratio as ratio, o.first_seen_at, o.last_seen_at,
    sum(s.gained) / nullif(sum(s.hours), 0) * 24 as views_per_day
from outlierd.outliers o
left join sightings s using (video_id)
group by all;
