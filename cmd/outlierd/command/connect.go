package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"outlierd/cmd/outlierd/term"
	"outlierd/sinks/bucket"
	"outlierd/sync/job"
)

func connectCommand(o *options) *cobra.Command {
	var try bool
	c := &cobra.Command{
		Use:   "connect [TOOL]",
		Short: "Print snippets that open the tables in other tools",
		Long: `Print lines that open the published tables, with absolute paths: for DuckDB's command line,
Python, pandas, polars, R, DBeaver, Metabase and Grafana, and for a lake also Spark, Trino and
pyiceberg. All of them only read.

--check tries those that this machine has and says which it could not try. Nothing is
installed. Exit code 1 if one of them fails.`,
		Example: `  outlierd connect
  outlierd connect polars
  outlierd connect --check`,
		Args:      cobra.MaximumNArgs(1),
		ValidArgs: toolNames(),
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.tableOrJSON(); err != nil {
				return err
			}
			config, err := o.loadToRead()
			if err != nil {
				return err
			}
			chosen, err := chooseTools(args)
			if err != nil {
				return err
			}
			places, err := placesOf(config, o.world.env)
			if err != nil {
				return err
			}
			places.account = bucket.AzureAccount(o.world.env)
			if try {
				return o.tryTools(c.Context(), chosen, places)
			}
			return o.showTools(chosen, places)
		},
	}
	c.Flags().BoolVar(&try, "check", false, "try the tools that this machine has")
	return c
}

// places has the locations of the tables; "" for sinks that the job file does not have.
type places struct {
	file    string     // the published DuckDB file
	parquet string     // the folder of the Parquet files
	bucket  string     // the address of the bucket with copies of them
	lake    *lakePlace // the lake
	account string     // of Azure, for a container, if the environment has it
}

func placesOf(config *job.Config, env func(string) (string, bool)) (p places, err error) {
	for _, sink := range config.Sinks {
		if sink.Lake != nil {
			p.lake = lakePlaceOf(sink.Lake, env)
			continue
		}
		path, err := filepath.Abs(sinkPath(config, sink))
		if err != nil {
			return p, err
		}
		switch {
		case sink.Kind == job.SinkDuckDB && p.file == "":
			p.file = path
		case sink.Kind == job.SinkParquet && p.parquet == "":
			p.parquet, p.bucket = path, sink.Bucket
		}
	}
	return p, nil
}

// folder returns the folder of outliers as last seen, current a pattern for its Parquet files, and history one
// for the files of all sightings.
func (p places) folder() string { return filepath.Join(p.parquet, "outliers") }
func (p places) current() string {
	return filepath.ToSlash(globText(p.parquet)) + "/outliers/*.parquet"
}
func (p places) history() string {
	return filepath.ToSlash(globText(p.parquet)) + "/outliers_history/**/*.parquet"
}

// secret returns the SQL that lets DuckDB find credentials for the bucket.
func (p places) secret() string {
	if !strings.HasPrefix(p.bucket, "az://") {
		return "create secret (type s3, provider credential_chain)"
	}
	account := cmp.Or(p.account, "ACCOUNT") // a placeholder for the user
	return "create secret (type azure, provider credential_chain, account_name " + sqlText(account) + ")"
}

// globText returns a pattern that matches only the given path.
func globText(path string) string {
	return strings.NewReplacer("[", "[[]", "*", "[*]", "?", "[?]").Replace(path)
}

// tool is a program that reads the tables.
type tool struct {
	name string
	file func(path string) string // returns lines for the DuckDB file; nil if the tool does not read it

	// returns lines for the Parquet files; nil if the tool cannot read them itself.
	parquet func(places) string

	// bucket returns lines for the copy of these in a bucket; nil if the tool cannot read it.
	bucket func(places) string

	// lake returns lines for Iceberg tables; nil if the tool does not read them.
	lake func(*lakePlace) string

	// try returns a command line that counts the outliers in the DuckDB file, and tryParquet one for the
	// Parquet files; nil if not supported.
	try        func(path string) []string
	tryParquet func(places) []string

	// tryLake is the same for Iceberg tables. untried says why there is no such command.
	tryLake func(*lakePlace) []string
	untried string
}

const best = "select title, channel_title, z_score from outliers order by z_score desc limit 10"

var tools = []tool{
	{
		name: "duckdb",
		file: func(path string) string {
			return fmt.Sprintf("duckdb -readonly %s %s", shellText(path), shellText(best))
		},
		parquet: func(p places) string {
			return "duckdb -c " + shellText("select date, count(*) from read_parquet("+sqlText(p.history())+
				", hive_partitioning = true) group by date order by date")
		},
		bucket: func(p places) string {
			return "duckdb -c " + shellText(p.secret()+"; "+
				"set variable files = (select list("+sqlText(p.bucket+"/")+" || o.name) from "+
				"(select unnest(tables.outliers_history) as o from read_json("+
				sqlText(p.bucket+"/_manifest/latest.json")+"))); "+
				"select date, count(*) "+
				"from read_parquet(getvariable('files'), hive_partitioning = true) group by date order by date")
		},
		lake: duckdbLakeLines, tryLake: tryDuckDBLake,
		try: func(path string) []string {
			return []string{"duckdb", "-readonly", "-noheader", "-list", path, "select count(*) from outliers"}
		},
		tryParquet: func(p places) []string {
			return []string{"duckdb", "-noheader", "-list", "-c",
				"select count(*) from read_parquet(" + sqlText(p.current()) + ")"}
		},
	},
	{
		name: "python",
		file: func(path string) string {
			return fmt.Sprintf("import duckdb\n\nwith duckdb.connect(%s, read_only=True) as db:\n"+
				"    rows = db.execute(%s).fetchall()", pythonText(path), pythonText(best))
		},
		try: func(path string) []string {
			return python("import duckdb", fmt.Sprintf("print(duckdb.connect(%s, read_only=True)"+
				".execute('select count(*) from outliers').fetchone()[0])", pythonText(path)))
		},
	},
	{
		name: "pandas",
		file: func(path string) string {
			return fmt.Sprintf("import duckdb\n\nwith duckdb.connect(%s, read_only=True) as db:\n"+
				"    df = db.execute(%s).df()", pythonText(path), pythonText(best))
		},
		parquet: func(p places) string {
			return fmt.Sprintf("import pandas as pd\n\ndf = pd.read_parquet(%s)", pythonText(p.folder()))
		},
		bucket: func(p places) string {
			return "import json, fsspec, pandas as pd\n\n" + namesInBucket(p.bucket, "outliers") +
				"\ndf = pd.concat(pd.read_parquet(file) for file in files)"
		},
		try: func(path string) []string {
			return python("import duckdb, pandas", fmt.Sprintf("print(len(duckdb.connect(%s, read_only=True)"+
				".execute('select video_id from outliers').df()))", pythonText(path)))
		},
		tryParquet: func(p places) []string {
			return python("import pandas, pyarrow",
				fmt.Sprintf("print(len(pandas.read_parquet(%s)))", pythonText(p.folder())))
		},
	},
	{
		name: "polars",
		file: func(path string) string {
			return fmt.Sprintf("import duckdb\n\nwith duckdb.connect(%s, read_only=True) as db:\n"+
				"    df = db.sql(%s).pl()", pythonText(path), pythonText(best))
		},
		parquet: func(p places) string {
			return fmt.Sprintf("import polars as pl\n\noutliers = pl.read_parquet(%s)\n"+
				"history = pl.scan_parquet(%s, hive_partitioning=True)",
				pythonText(p.current()), pythonText(p.history()))
		},
		bucket: func(p places) string {
			return "import json, fsspec, polars as pl\n\n" + namesInBucket(p.bucket, "outliers_history") +
				"\nhistory = pl.scan_parquet(files, hive_partitioning=True)"
		},
		lake: polarsLakeLines, tryLake: tryPolarsLake,
		try: func(path string) []string {
			return python("import duckdb, polars, pyarrow", fmt.Sprintf("print(len(duckdb.connect(%s, read_only=True)"+
				".sql('select video_id from outliers').pl()))", pythonText(path)))
		},
		tryParquet: func(p places) []string {
			return python("import polars", fmt.Sprintf("print(polars.read_parquet(%s).height)",
				pythonText(p.current())))
		},
	},
	{
		name: "r",
		file: func(path string) string {
			return fmt.Sprintf("library(DBI)\ndb <- dbConnect(duckdb::duckdb(), dbdir = %s, read_only = TRUE)\n"+
				"best <- dbGetQuery(db, %s)\ndbDisconnect(db, shutdown = TRUE)", rText(path), rText(best))
		},
		parquet: func(p places) string {
			return fmt.Sprintf("outliers <- as.data.frame(arrow::open_dataset(%s))", rText(p.folder()))
		},
		try: func(path string) []string {
			return rscript("duckdb", fmt.Sprintf("db <- DBI::dbConnect(duckdb::duckdb(), dbdir = %s, "+
				"read_only = TRUE); cat(DBI::dbGetQuery(db, 'select count(*) as n from outliers')$n)", rText(path)))
		},
		tryParquet: func(p places) []string {
			return rscript("arrow", fmt.Sprintf("cat(nrow(arrow::open_dataset(%s)))", rText(p.folder())))
		},
	},
	{
		name: "dbeaver",
		file: func(path string) string {
			return "New connection: DuckDB\nPath: " + path + "\nDriver properties: duckdb.read_only = true"
		},
	},
	{
		name: "metabase",
		file: func(path string) string {
			return "Add a database with the DuckDB driver (a plugin of Metabase)\nDatabase file: " + path +
				"\nEstablish a read-only connection: on\nIn a container: mount the folder " +
				filepath.Dir(path) + ", not the file"
		},
	},
	{
		name: "grafana",
		file: func(path string) string {
			return "Add a data source of the DuckDB plugin\nPath: " + path +
				"\nIt opens the file again after each change\nIn a container: mount the folder " +
				filepath.Dir(path) + ", not the file"
		},
	},
	{name: "pyiceberg", lake: pyicebergLines, tryLake: tryPyiceberg},
	{name: "spark", lake: sparkLines, untried: "would load its packages"},
	{name: "trino", lake: trinoLines, untried: "is a server"},
}

// namesInBucket returns Python code that reads the addresses of a table's objects from the manifest. A
// glob would also match outdated objects.
func namesInBucket(address, table string) string {
	return fmt.Sprintf("with fsspec.open(%s) as f:\n"+
		"    files = [%s + o[\"name\"] for o in json.load(f)[\"tables\"][%s]]",
		pythonText(address+"/_manifest/latest.json"), pythonText(address+"/"), pythonText(table))
}

func toolNames() (names []string) {
	for _, t := range tools {
		names = append(names, t.name)
	}
	return names
}

func chooseTools(args []string) ([]tool, error) {
	if len(args) == 0 {
		return tools, nil
	}
	i := slices.IndexFunc(tools, func(t tool) bool { return t.name == strings.ToLower(args[0]) })
	if i < 0 {
		return nil, usageError{fmt.Errorf("unknown tool %q: want %s%s", args[0],
			term.OneOf(toolNames()), didYouMean(args[0], toolNames()))}
	}
	return tools[i : i+1], nil
}

// # Quoting

// shellText quotes a text as a word of a POSIX shell.
func shellText(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// sqlText quotes a text as a SQL literal.
func sqlText(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// pythonText quotes a text as a Python literal.
func pythonText(s string) string { return quoted(s) }

// rText quotes a text as an R literal.
func rText(s string) string { return quoted(s) }

// quoted returns a text in double quotes, with the escapes that Python and R have in common.
func quoted(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteString(`\` + string(r))
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String() + `"`
}

// # Trying

// python runs a program that needs modules. If one is missing, it exits with lacking.
func python(imports, program string) []string {
	return []string{"python3", "-c", "try:\n    " + imports +
		"\nexcept ImportError as e:\n    print(e)\n    raise SystemExit(" +
		fmt.Sprint(lacking) + ")\n" + program}
}

// rscript runs a program that needs a package. If it is missing, it exits with lacking.
func rscript(needs, program string) []string {
	return []string{"Rscript", "-e", fmt.Sprintf("if (!requireNamespace('%s', "+
		"quietly = TRUE)) { cat('no package %[1]s'); quit(status = %d) }; %s", needs, lacking, program)}
}

const (
	lacking = 77 // exit code of a try that lacks a part of the tool
	tryTime = 30 * time.Second
)

// trial is the result of trying a tool.
type trial struct {
	Tool   string `json:"tool"`
	Reads  string `json:"reads"`  // duckdb, parquet or iceberg
	Status string `json:"status"` // ok, failed or not tried
	Found  string `json:"found"`
}

// tryTools tries tools one after the other.
func (o *options) tryTools(ctx context.Context, chosen []tool, p places) error {
	var all []trial
	failed := 0
	for _, t := range chosen {
		var file, parquet []string
		if t.try != nil {
			file = t.try(p.file)
		}
		if t.tryParquet != nil && p.parquet != "" {
			parquet = t.tryParquet(p)
		}
		if p.file != "" && t.file != nil {
			all = append(all, tryTool(ctx, t.name, "duckdb", file))
		}
		if parquet != nil {
			all = append(all, tryTool(ctx, t.name, "parquet", parquet))
		}
		switch {
		case t.lake == nil || p.lake == nil:
		case t.tryLake != nil:
			all = append(all, tryTool(ctx, t.name, "iceberg", t.tryLake(p.lake)))
		default:
			all = append(all, trial{Tool: t.name, Reads: "iceberg", Status: "not tried", Found: t.untried})
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	var rows [][]any
	for _, t := range all {
		rows = append(rows, []any{t.Tool, t.Reads, t.Status, t.Found})
		if t.Status == "failed" {
			failed++
		}
	}
	err := o.printTrials(all, rows)
	if err == nil && failed > 0 {
		err = fmt.Errorf("%d of %s could not read the tables", failed, term.Count(len(all), "check"))
	}
	return err
}

func (o *options) printTrials(all []trial, rows [][]any) error {
	if o.forPrograms() {
		return o.whole(all)
	}
	return o.rows([]string{"tool", "reads", "status", "found"}, rows)
}

// tryTool runs a command line that prints the number of outliers.
func tryTool(ctx context.Context, name, reads string, command []string) trial {
	t := trial{Tool: name, Reads: reads, Status: "not tried"}
	if command == nil {
		t.Found = "has no command line"
		return t
	}
	path, err := exec.LookPath(command[0])
	if err != nil {
		t.Found = command[0] + " is not on the PATH"
		return t
	}
	limited, cancel := context.WithTimeout(ctx, tryTime)
	defer cancel()
	c := exec.CommandContext(limited, path, command[1:]...)
	c.WaitDelay = time.Second
	out, err := c.Output()
	said := strings.TrimSpace(string(out))
	exit, exited := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil:
		t.Status, t.Found = "ok", term.Clip(said, 20)+" outliers"
	case limited.Err() != nil:
		t.Status, t.Found = "failed", fmt.Sprintf("no answer within %v", tryTime)
	case exited && exit.ExitCode() == lacking:
		t.Found = term.Clip(said, 100)
	case exited:
		lines := strings.Split(strings.TrimSpace(string(exit.Stderr)), "\n")
		t.Status, t.Found = "failed", term.Clip(lines[len(lines)-1], 200)
	default:
		t.Status, t.Found = "failed", err.Error()
	}
	return t
}

// # Showing

// showTools prints the lines of tools.
func (o *options) showTools(chosen []tool, p places) error {
	if p.file == "" && p.parquet == "" && p.lake == nil {
		return errors.New("the job file has no sinks, so there is nothing to open")
	}
	if o.forPrograms() {
		return o.toolsForPrograms(chosen, p)
	}
	var b strings.Builder
	for _, t := range chosen {
		parts := t.lines(p)
		if len(parts) == 0 {
			continue
		}
		if b.Len() > 0 {
			b.WriteString("\n")
		}
		if len(chosen) > 1 {
			b.WriteString("── " + t.name + "\n")
		}
		b.WriteString(strings.Join(parts, "\n\n") + "\n")
	}
	if b.Len() == 0 {
		return fmt.Errorf("%s reads none of the sinks of the job file", chosen[0].name)
	}
	_, err := fmt.Fprint(o.world.out, b.String())
	return err
}

// lines returns the lines of a tool for each sink that it reads.
func (t tool) lines(p places) (parts []string) {
	if t.file != nil && p.file != "" {
		parts = append(parts, t.file(p.file))
	}
	if t.parquet != nil && p.parquet != "" {
		parts = append(parts, t.parquet(p))
	}
	if t.bucket != nil && p.bucket != "" {
		parts = append(parts, t.bucket(p))
	}
	if t.lake != nil && p.lake != nil {
		parts = append(parts, t.lake(p.lake))
	}
	return parts
}

// toolsForPrograms prints the lines of tools as JSON.
func (o *options) toolsForPrograms(chosen []tool, p places) error {
	type lines struct {
		Tool    string `json:"tool"`
		DuckDB  string `json:"duckdb,omitempty"`
		Parquet string `json:"parquet,omitempty"`
		Bucket  string `json:"bucket,omitempty"`
		Iceberg string `json:"iceberg,omitempty"`
	}
	all := []lines{}
	for _, t := range chosen {
		l := lines{Tool: t.name}
		if t.file != nil && p.file != "" {
			l.DuckDB = t.file(p.file)
		}
		if t.parquet != nil && p.parquet != "" {
			l.Parquet = t.parquet(p)
		}
		if t.bucket != nil && p.bucket != "" {
			l.Bucket = t.bucket(p)
		}
		if t.lake != nil && p.lake != nil {
			l.Iceberg = t.lake(p.lake)
		}
		all = append(all, l)
	}
	if o.output == "ndjson" {
		for _, l := range all {
			if err := o.whole(l); err != nil {
				return err
			}
		}
		return nil
	}
	return o.whole(all)
}
