"""Compares a folder of Parquet files with its copy in a bucket, in DuckDB, pandas and polars."""

import json
import os
import pathlib
import sys
from urllib.parse import urlsplit

import duckdb
import duckdb_ext
import fsspec
import pandas as pd
import polars as pl

data, address = sys.argv[1:]
folder = pathlib.Path(data, "parquet")
with fsspec.open(address + "/_manifest/latest.json") as f:
    tables = json.load(f)["tables"]

kind = address.split(":")[0]
extension = {"s3": "httpfs", "az": "azure"}[kind] + ".duckdb_extension"
db = duckdb.connect(config={"allow_unsigned_extensions": True})
db.load_extension(str(next(pathlib.Path(duckdb_ext.__path__[0]).rglob(extension))))
options = None  # polars reads those of S3 from the environment
if kind == "s3":
    endpoint = urlsplit(os.environ["AWS_ENDPOINT_URL"]).netloc
    db.execute(
        f"""create secret (type s3, key_id '{os.environ["AWS_ACCESS_KEY_ID"]}', secret '{os.environ["AWS_SECRET_ACCESS_KEY"]}',
        endpoint '{endpoint}', use_ssl false, url_style 'path', region 'us-east-1')"""
    )
else:
    text = os.environ["AZURE_STORAGE_CONNECTION_STRING"]
    parts = dict(part.split("=", 1) for part in text.split(";"))
    db.execute(f"create secret (type azure, connection_string 'DefaultEndpointsProtocol=http;{text}')")
    options = {"account_name": parts["AccountName"], "account_key": parts["AccountKey"], "allow_http": "true",
               "azure_storage_endpoint": parts["BlobEndpoint"]}
published = duckdb.connect(os.path.join(data, "outliers.duckdb"), read_only=True)


def by_duckdb(files):
    return db.execute(
        "select count(*), count(distinct video_id), sum(view_count)::bigint from read_parquet(?, union_by_name = true)", [files]
    ).fetchone()


def by_pandas(files):
    df = pd.concat(pd.read_parquet(f, columns=["video_id", "view_count"]) for f in files)
    return len(df), df.video_id.nunique(), int(df.view_count.sum())


def by_polars(files):
    of = options if files[0].startswith(address) else None
    rows = pl.scan_parquet(files, missing_columns="insert", extra_columns="ignore", storage_options=of)
    return rows.select(pl.len(), pl.col("video_id").n_unique(), pl.col("view_count").sum()).collect().row(0)


wrong = 0
for table in ["outliers", "outliers_history"]:
    local = [str(f) for f in sorted((folder / table).rglob("*.parquet"))]
    copied = [f"{address}/{o['name']}" for o in tables[table]]
    want = published.execute(f"select count(*), count(distinct video_id), sum(view_count)::bigint from {table}").fetchone()
    print(f"{table}: {want} in the DuckDB file")
    for ask in [by_duckdb, by_pandas, by_polars]:
        for where, files in [("folder", local), ("bucket", copied)]:
            got = tuple(ask(files))
            wrong += got != want
            print(f"  {ask.__name__} {where}: {got}" + ("" if got == want else "  DIFFERS"))
for table in tables:
    rows = db.execute("select count(*) from read_parquet(?, union_by_name = true)", [[f"{address}/{o['name']}" for o in tables[table]]]).fetchone()[0]
    named = sum(o["rows"] for o in tables[table])
    if rows != named:
        wrong += 1
        print(f"{table}: {rows} rows, and the manifest says {named}")
print(f"{len(tables)} tables have as many rows in the bucket as the manifest says" if not wrong else f"{wrong} differ")
sys.exit(wrong > 0)
