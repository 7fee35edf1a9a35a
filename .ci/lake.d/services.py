"""The services of a lake, on loopback: PostgreSQL, a server of the S3 API, a REST catalog."""

import contextlib
import os
import pathlib
import pwd
import shutil
import signal
import socket
import subprocess
import time
import urllib.request

PASSWORD = "of-a-test"
PATIENCE = 120  # seconds until a service answers


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Process:
    """A process with a log, which is stopped when this program ends."""

    running: list["Process"] = []
    ends_by = signal.SIGTERM

    def __init__(self, name: str, command: list[str], folder: pathlib.Path, user: str | None = None, **env: str):
        self.name, self.log = name, folder / f"{name}.log"
        with self.log.open("ab") as log:
            self.child = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                          env=os.environ | env, user=user, start_new_session=True)
        Process.running.append(self)

    def until(self, answers, patience: float = PATIENCE) -> None:
        end = time.monotonic() + patience
        while not answers():
            assert self.child.poll() is None, f"{self.name} has ended:\n{self.said()}"
            assert time.monotonic() < end, f"{self.name} does not answer:\n{self.said()}"
            time.sleep(0.05)

    def said(self) -> str:
        return self.log.read_text(errors="replace")[-4000:]

    def stop(self, how: signal.Signals | None = None) -> int:
        if self.child.poll() is None:
            os.killpg(self.child.pid, how or self.ends_by)
            try:
                self.child.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(self.child.pid, signal.SIGKILL)
                self.child.wait()
        if self in Process.running:
            Process.running.remove(self)
        return self.child.returncode

    @staticmethod
    def stop_all() -> None:
        for p in reversed(list(Process.running)):
            p.stop()


def listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


class Postgres:
    """A cluster of its own, whose superuser is outlierd."""

    def __init__(self, work: pathlib.Path):
        self.folder, self.port = work / "postgres", free_port()
        found = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/initdb")) or [pathlib.Path(shutil.which("initdb"))]
        self.programs = found[-1].parent
        self.folder.mkdir()
        self.user = None
        if os.getuid() == 0:  # PostgreSQL refuses to run as root
            self.user = "postgres"
            os.chown(self.folder, pwd.getpwnam(self.user).pw_uid, -1)
        password = self.folder / "password"
        password.write_text(PASSWORD)
        password.chmod(0o644)
        subprocess.run([self.programs / "initdb", "-D", self.folder / "data", "-U", "outlierd", "-A", "scram-sha-256",
                        "--pwfile", password, "-E", "UTF8", "--locale=C"],
                       check=True, cwd=self.folder, user=self.user, stdout=subprocess.DEVNULL)
        self.start()

    def start(self) -> None:
        self.process = Process("postgres", [
            str(self.programs / "postgres"), "-D", str(self.folder / "data"), "-p", str(self.port),
            "-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={self.folder}"], self.folder, self.user)
        self.process.ends_by = signal.SIGINT  # SIGTERM would wait for clients
        self.process.until(lambda: subprocess.run(
            [self.programs / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)], check=False).returncode == 0)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT aborts transactions, SIGQUIT simulates a crash."""
        os.kill(self.process.child.pid, how)
        self.process.child.wait(60)
        self.process.stop()

    def sql(self, text: str, database: str = "postgres") -> str:
        done = subprocess.run([self.programs / "psql", "-h", "127.0.0.1", "-p", str(self.port), "-U", "outlierd", "-d", database,
                               "-At", "-v", "ON_ERROR_STOP=1", "-c", text],
                              check=True, capture_output=True, text=True, env=os.environ | {"PGPASSWORD": PASSWORD})
        return done.stdout.strip()

    def database(self, name: str) -> str:
        self.sql(f"create database {name}")
        return f"postgres://outlierd@127.0.0.1:{self.port}/{name}"


class Store:
    """versitygw, which serves a folder by the S3 API."""

    def __init__(self, tools: pathlib.Path, work: pathlib.Path):
        self.tools, self.work, self.port = tools, work, free_port()
        self.folder = work / "store"
        self.folder.mkdir()
        os.environ |= {"AWS_ACCESS_KEY_ID": "loopback", "AWS_SECRET_ACCESS_KEY": PASSWORD, "AWS_REGION": "us-east-1",
                       "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}"}
        self.start()

    def start(self, secret: str = PASSWORD) -> None:
        self.process = Process("versitygw", [
            str(self.tools / "bin/versitygw"), "--port", f"127.0.0.1:{self.port}", "--quiet", "--keep-alive",
            "posix", str(self.folder)], self.work, ROOT_ACCESS_KEY="loopback", ROOT_SECRET_KEY=secret)
        self.process.until(lambda: listens(self.port))

    def stop(self) -> None:
        self.process.stop()

    def bucket(self, name: str) -> str:
        (self.folder / name).mkdir()
        return f"s3://{name}"


class Rest:
    """Iceberg's REST catalog with a database of its own."""

    def __init__(self, tools: pathlib.Path, work: pathlib.Path, name: str, database: str, warehouse: str):
        self.port = free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        self.process = Process(f"rest-{name}", [
            "java", "-Xmx512m", "-cp", f"{tools}/rest/*", str(pathlib.Path(__file__).parent / "Rest.java"), str(self.port),
            "jdbc:postgresql://" + database.partition("@")[2], "outlierd", warehouse], work, PGPASSWORD=PASSWORD)
        self.process.until(self.answers)

    def answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.address}/v1/config", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False
