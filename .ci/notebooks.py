"""Executes the notebooks, saves their plots, runs the SQL models, and compares ten answers in four engines."""

import base64
import math
import os
import pathlib
import sys
import warnings

import duckdb
import nbformat
import pandas as pd
import polars as pl
from nbclient import NotebookClient

ROOT = pathlib.Path(sys.argv[1])
FILE, PARQUET = os.environ["OUTLIERD_FILE"], pathlib.Path(os.environ["OUTLIERD_PARQUET"])
warnings.filterwarnings("ignore", category=DeprecationWarning)  # within duckdb's own modules
MOST = 150_000  # bytes of a plot


def execute(path: pathlib.Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": path.parent}}).execute()
    for cell in notebook.cells:
        for tag in cell.metadata.get("tags", []):
            name = tag.removeprefix("plot:")
            images = [o.data["image/png"] for o in cell.outputs if "image/png" in o.get("data", {})]
            assert len(images) == 1, f"{path.name}: {tag} drew {len(images)} plots"
            image = base64.b64decode(images[0])
            assert len(image) < MOST, f"{name}.png has {len(image)} bytes"
            (ROOT / "docs/img" / f"{name}.png").write_bytes(image)
            print(f"{path.name}: {name}.png, {len(image)} bytes")


def models() -> None:
    with duckdb.connect() as db:
        db.execute("attach '" + FILE.replace("'", "''") + "' as outlierd (read_only)")
        for path in sorted((ROOT / "examples/sql").glob("*.sql")):
            db.execute(path.read_text())
        for (name,) in db.execute("select table_name from duckdb_tables() where database_name = 'memory' order by 1").fetchall():
            rows = db.execute(f'select count(*) from "{name}"').fetchone()[0]
            assert rows > 0, f"the model {name} is empty"
            print(f"examples/sql: {name}, {rows} rows")


# Each question in SQL, which is asked of the file and of Parquet, in pandas and in polars.
QUESTIONS = {
    "videos": ("select count(*) from outliers", lambda t: len(t("outliers")), lambda t: t("outliers").height),
    "views": ("select sum(view_count) from outliers", lambda t: t("outliers").view_count.sum(),
              lambda t: t("outliers")["view_count"].sum()),
    "mean ratio": ("select avg(average_views_ratio) from outliers", lambda t: t("outliers").average_views_ratio.mean(),
                   lambda t: t("outliers")["average_views_ratio"].mean()),
    "sightings": ("select count(*) from outliers_history", lambda t: len(t("outliers_history")),
                  lambda t: t("outliers_history").height),
    "videos in the history": ("select count(distinct video_id) from outliers_history",
                              lambda t: t("outliers_history").video_id.nunique(),
                              lambda t: t("outliers_history")["video_id"].n_unique()),
    "newest publication": ("select epoch_us(max(published_at)) from outliers",
                           lambda t: t("outliers").published_at.max().value // 1000,
                           lambda t: t("outliers")["published_at"].dt.epoch("us").max()),
    "channels with several": (
        "select count(*) from (select channel_id from outliers group by 1 having count(*) > 1)",
        lambda t: (t("outliers").channel_id.value_counts() > 1).sum(),
        lambda t: (t("outliers")["channel_id"].value_counts()["count"] > 1).sum()),
    "most gained": (
        "select max(g) from (select max(view_count) - min(view_count) as g from outliers_history group by video_id)",
        lambda t: t("outliers_history").groupby("video_id").view_count.agg(lambda v: v.max() - v.min()).max(),
        lambda t: t("outliers_history").group_by("video_id").agg(g=pl.max("view_count") - pl.min("view_count"))["g"].max()),
    "credits": ("select sum(credits) from ops.searches", lambda t: t("ops.searches").credits.sum(),
                lambda t: t("ops.searches")["credits"].sum()),
    "likes of comments": ("select sum(likes_count) from comments", lambda t: t("comments").likes_count.sum(),
                          lambda t: t("comments")["likes_count"].sum()),
}


def ask() -> None:
    def files(table: str) -> str:
        return str(PARQUET / table.replace(".", "_") / "**/*.parquet")

    with duckdb.connect(FILE, read_only=True) as db, duckdb.connect() as lake:
        lake.execute("create schema ops")
        for table in ("outliers", "outliers_history", "ops.searches", "comments"):
            lake.execute(f"create view {table} as from read_parquet('{files(table)}', hive_partitioning = false)")
        for question, (sql, in_pandas, in_polars) in QUESTIONS.items():
            answers = {
                "DuckDB": db.execute(sql).fetchone()[0],
                "Parquet": lake.execute(sql).fetchone()[0],
                "pandas": in_pandas(lambda t: db.execute(f"from {t}").df()),
                "polars": in_polars(lambda t: pl.scan_parquet(files(t), hive_partitioning=False).collect()),
            }
            first = float(answers["DuckDB"])
            assert all(math.isclose(first, float(a), rel_tol=1e-9) for a in answers.values()), (question, answers)
            print(f"{question}: {first:g}")


for path in sorted((ROOT / "examples/notebooks").glob("*.ipynb")):
    execute(path)
models()
ask()
