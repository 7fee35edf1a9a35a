"""Runs the lines that `outlierd connect READER` prints, and answers ten questions by the connection they open.

    readers.py READER FILE-WITH-THE-LINES TABLE...

prints the answers as JSON, and how many rows each table has.
"""

import json
import re
import shlex
import subprocess
import sys

# Each question in SQL, and in the functions of pyarrow and polars. A time is in microseconds.
QUESTIONS = {
    "outlier videos": ("select count(*) from outliers", lambda t: t("outliers").height),
    "views": ("select sum(view_count) from outliers", lambda t: t("outliers")["view_count"].sum()),
    "mean ratio": ("select avg(average_views_ratio) from outliers", lambda t: t("outliers")["average_views_ratio"].mean()),
    "sightings": ("select count(*) from outliers_history", lambda t: t("outliers_history").height),
    "videos in the history": ("select count(distinct video_id) from outliers_history",
                              lambda t: t("outliers_history")["video_id"].n_unique()),
    "newest publication": ("select max(published_at) from outliers",
                           lambda t: t("outliers")["published_at"].max()),
    "channels with several": (
        "select count(*) from (select channel_id from outliers group by channel_id having count(*) > 1) c",
        lambda t: (t("outliers")["channel_id"].value_counts()["count"] > 1).sum()),
    "most gained": (
        "select max(g) from (select max(view_count) - min(view_count) as g from outliers_history group by video_id) v",
        lambda t: t("outliers_history").group_by("video_id").agg(g=pl().max("view_count") - pl().min("view_count"))["g"].max()),
    "credits spent": ("select sum(credits) from ops_searches", lambda t: t("ops_searches")["credits"].sum()),
    "likes of comments": ("select sum(likes_count) from comments", lambda t: t("comments")["likes_count"].sum()),
}


def pl():
    import polars
    return polars


def plain(value):
    """A number, whatever type an engine returns."""
    if hasattr(value, "timestamp"):
        return round(value.timestamp() * 1_000_000)
    return float(value) if value is not None else None


def by_sql(one, tables: list[str], place: str) -> dict:
    def there(sql: str) -> str:
        return re.sub(r"\bfrom (\w+)", lambda m: f"from {place}{m[1]}", sql)

    answers = {question: plain(one(there(sql))) for question, (sql, _) in QUESTIONS.items()}
    return answers | {table: one(f"select count(*) from {place}{table}") for table in tables}


def by_frames(frame, tables: list[str]) -> dict:
    """frame returns a table's rows in polars."""
    known = {}

    def table(name: str):
        if name not in known:
            known[name] = frame(name)
        return known[name]

    answers = {question: plain(ask(table)) for question, (_, ask) in QUESTIONS.items()}
    return answers | {name: frame(name).height for name in tables}


def spark(lines: str, tables: list[str]) -> dict:
    names = run(lines)
    return by_sql(lambda sql: names["spark"].sql(sql).first()[0], tables, "outlierd.outlierd.")


def pyiceberg(lines: str, tables: list[str]) -> dict:
    catalog = run(lines)["catalog"]
    return by_frames(lambda name: pl().from_arrow(catalog.load_table(f"outlierd.{name}").scan().to_arrow()), tables)


def polars(lines: str, tables: list[str]) -> dict:
    names = run(lines)
    options = {"storage_options": names["options"]} if "options" in names else {}
    return by_frames(lambda name: pl().scan_iceberg(names["catalog"].load_table(f"outlierd.{name}"), **options).collect(), tables)


def duckdb(lines: str, tables: list[str]) -> dict:
    """The lines are a shell command, whose SQL ends with a query of the table outliers."""
    import duckdb as library

    subprocess.run(["bash", "-euc", lines], check=True, stdout=subprocess.DEVNULL)
    db = library.connect()
    place = open_duckdb(db, lines, tables)
    return by_sql(lambda sql: db.execute(sql).fetchone()[0], tables, place)


def open_duckdb(db, lines: str, tables: list[str]) -> str:
    """Executes the statements before the query; returns the prefix of table names."""
    *begin, last = shlex.split(lines)[2].split(";\n")
    for sql in begin:
        if "set variable" not in sql:
            db.execute(sql)
            continue
        for table in tables:
            db.execute(sql.replace("outliers", table))
            location = db.execute(f"select getvariable('{table}')").fetchone()[0]
            db.execute(f"create view {table} as from iceberg_scan('{location}')")
    return re.search(r" from (.*?)\boutliers\b", last)[1] if "lake." in last else ""


def trino(address: str, tables: list[str]) -> dict:
    from trino.dbapi import connect

    host, port, catalog = address.split(":")
    cursor = connect(host=host, port=int(port), user="outlierd", catalog=catalog, schema="outlierd").cursor()

    def one(sql: str):
        cursor.execute(sql)
        return cursor.fetchone()[0]

    return by_sql(one, tables, "")


def run(lines: str) -> dict:
    names = {}
    exec(lines, names)
    return names


def string_type():
    from pyiceberg.types import StringType
    return StringType()


if __name__ == "__main__":
    reader, path, *tables = sys.argv[1:]
    with open(path) as f:
        print("\n" + json.dumps(globals()[reader](f.read(), tables)))
