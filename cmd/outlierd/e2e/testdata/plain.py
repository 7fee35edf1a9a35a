"""What somebody would write in an afternoon: requests, and DuckDB at the end.

It asks for the same pages, details, comments and transcripts as the job `videos` of
bench_test.go, over one kept connection, and makes one table of each. It has no budget,
no journal, no Parquet, and loses everything when it is killed. Usage:

    OUTLIERD_URL=http://127.0.0.1:9090 OUTLIERD_KEY=demo python plain.py FILE.duckdb
"""

import json
import os
import sys
import tempfile

import duckdb
import requests

QUERIES = ["home espresso", "moka pot", "minecraft", "sourdough", "mechanical keyboards"]
PAGES, SIZE = 19, 40

service = os.environ["OUTLIERD_URL"]
session = requests.Session()
session.headers["Authorization"] = "Api-Key " + os.environ["OUTLIERD_KEY"]


def get(path, **params):
    answer = session.get(service + path, params=params, timeout=60)
    if answer.status_code == 404:
        return {}
    answer.raise_for_status()
    return answer.json()


def rows(operation, video, of):
    """The rows that an answer about a video has in a list, each with the video's id."""
    for item in get(f"/video/{operation}/{video}").get("items", []):
        for row in item.get(of) or []:
            yield {"video_id": video, **row}


hits = []
for page in range(PAGES):
    # The simulator counts pages in `from`.
    hits += get("/search/outliers", query=QUERIES, type="video", sortBy="zScore", sortOrder="desc",
                **{"from": page, "size": SIZE})["hits"]

with tempfile.TemporaryDirectory() as folder, duckdb.connect(sys.argv[1]) as db:
    files = {name: open(os.path.join(folder, name + ".ndjson"), "w")
             for name in ("outliers", "videos", "comments", "transcript_events")}

    def write(table, some):
        for row in some:
            files[table].write(json.dumps(row) + "\n")

    write("outliers", hits)
    for hit in hits:
        write("videos", get("/video/" + hit["id"]).get("items", []))
        write("comments", rows("comments", hit["id"], of="comments"))
        write("transcript_events", rows("transcript", hit["id"], of="events"))
    for name, file in files.items():
        file.close()
        db.execute(f"create table {name} as from read_json(?, format = 'newline_delimited')", [file.name])
        print(name, db.execute(f"select count(*) from {name}").fetchone()[0])
