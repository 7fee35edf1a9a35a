package command

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/spf13/cobra"

	"outlierd/schema"
	"outlierd/sinks/duckdb/database"
	"outlierd/sync/job"
)

// tools are the programs that connect.tmpl has blocks for.
var tools = []string{"duckdb", "python", "pandas", "polars", "r", "dbeaver", "metabase", "grafana", "pyiceberg", "spark", "trino"}

func connectCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "connect [TOOL]",
		Short: "Print snippets that open the tables in other tools",
		Long: `Print lines that open the published tables, with absolute paths: for DuckDB's command line,
Python, pandas, polars, R, DBeaver, Metabase and Grafana, and for a lake also Spark, Trino and
pyiceberg. All of them only read.`,
		Example: `  outlierd connect
  outlierd connect polars`,
		ValidArgs: tools,
		RunE: func(_ *cobra.Command, args []string) error {
			config, err := g.loadToRead()
			if err != nil {
				return err
			}
			if len(args) > 0 {
				if err := refuseOther("TOOL", args[0], tools); err != nil {
					return err
				}
			}
			p, err := placesOf(config, g.world.env)
			if err != nil {
				return err
			}
			return printSnippets(g.out, args, p)
		},
	}
}

// snippets are the lines of a tool, by what they read.
type snippets struct {
	Tool    string `json:"tool"`
	DuckDB  string `json:"duckdb,omitempty"`
	Parquet string `json:"parquet,omitempty"`
	Bucket  string `json:"bucket,omitempty"`
	Iceberg string `json:"iceberg,omitempty"`
}

// printSnippets prints the lines of the chosen tools, or of all if none is chosen.
func printSnippets(out *printer, chosen []string, p *places) error {
	if p.File == "" && p.Parquet == "" && p.Lake == nil {
		return errors.New("the job file has no sinks, so there is nothing to open")
	}
	if len(chosen) == 0 {
		chosen = tools
	}
	blocks := connectBlocks()
	all, text := []snippets{}, ""
	for _, tool := range chosen {
		s := snippets{Tool: tool}
		var parts []string
		for _, part := range []struct {
			reads string
			there bool
			into  *string
		}{
			{"duckdb", p.File != "", &s.DuckDB}, {"parquet", p.Parquet != "", &s.Parquet},
			{"bucket", p.Bucket != "", &s.Bucket}, {"iceberg", p.Lake != nil, &s.Iceberg},
		} {
			block := blocks.Lookup(tool + " " + part.reads)
			if block == nil || !part.there {
				continue
			}
			var b strings.Builder
			if err := block.Execute(&b, p); err != nil {
				return err
			}
			*part.into = b.String()
			parts = append(parts, b.String())
		}
		if len(parts) > 0 {
			title := ""
			if len(chosen) > 1 {
				title = "── " + tool + "\n"
			}
			text += "\n" + title + strings.Join(parts, "\n\n") + "\n"
		}
		all = append(all, s)
	}
	if text == "" {
		return fmt.Errorf("%s reads none of the sinks of the job file", chosen[0])
	}
	return out.print(all, "%s", strings.TrimPrefix(text, "\n"))
}

//go:embed connect.tmpl
var connectText string

// connectBlocks returns the parsed connect.tmpl.
func connectBlocks() *template.Template {
	t := template.New("")
	return template.Must(t.Funcs(template.FuncMap{
		"shell": shellText, "sql": database.Text, "quote": quoted,
		"best": func(table string) string { return strings.Replace(best, "outliers", table, 1) },
		"lines": func(name string, data any) (string, error) {
			var b strings.Builder
			err := t.ExecuteTemplate(&b, name, data)
			return b.String(), err
		},
	}).Parse(connectText))
}

const best = "select title, channel_title, z_score from outliers order by z_score desc limit 10"

// places has the locations of the tables; "" for sinks that the job file does not have.
type places struct {
	File, FileFolder string // the published DuckDB file
	Parquet          string // the folder of the Parquet files
	Folder           string // that of outliers as last seen
	Current, History string // patterns for the files of outliers as last seen, and of all sightings
	Bucket           string // the address of the bucket with copies of them
	InAzure          bool   // it is a container of Azure
	Lake             *lakePlace
}

func placesOf(config *job.Config, env lookup) (*places, error) {
	p := &places{}
	for _, sink := range config.Sinks {
		if sink.Lake != nil {
			p.Lake = lakePlaceOf(sink.Lake, env)
			continue
		}
		path, err := filepath.Abs(sinkPath(config, sink))
		if err != nil {
			return nil, err
		}
		switch {
		case sink.Kind == job.SinkDuckDB && p.File == "":
			p.File, p.FileFolder = path, filepath.Dir(path)
		case sink.Kind == job.SinkParquet && p.Parquet == "":
			pattern := filepath.ToSlash(globText(path))
			p.Parquet, p.Folder = path, filepath.Join(path, "outliers")
			p.Current, p.History = pattern+"/outliers/*.parquet", pattern+"/outliers_history/**/*.parquet"
			p.Bucket, p.InAzure = sink.Bucket, strings.HasPrefix(sink.Bucket, "az://")
		}
	}
	return p, nil
}

// lakePlace is a lake as tools open it. No address has a password.
type lakePlace struct {
	Kind    string // kind of the catalog: sqlite, postgres or rest
	Address string // of the catalog
	Python  string // the same for SQLAlchemy
	JDBC    string // the same for Java; "" for a REST catalog
	User    string // of the database of the catalog

	Warehouse    string // the address of the files, or the name of the warehouse in a REST catalog
	Namespace    string
	InBucket     bool
	Endpoint     string // of a store other than Amazon's; else ""
	EndpointHost string // its host and port
	Unencrypted  bool   // it is reached without TLS
	Secret       string // the variable with the token or credential of a REST catalog; else ""
	HasToken     bool   // it is a token
}

// The variables with what a REST catalog asks for; the last that is set counts.
const (
	restCredential = "ICEBERG_REST_CREDENTIAL"
	restToken      = "ICEBERG_REST_TOKEN"
)

func lakePlaceOf(l *job.Lake, env lookup) *lakePlace {
	p := &lakePlace{Kind: "rest", Warehouse: l.Warehouse, Namespace: l.Namespace, InBucket: strings.HasPrefix(l.Warehouse, "s3://")}
	catalog, err := url.Parse(l.Catalog)
	if err == nil {
		if p.User = catalog.User.Username(); catalog.User != nil {
			catalog.User = url.User(p.User)
		}
		catalog.RawQuery = ""
		p.Address = catalog.String()
		p.Python = p.Address
	}
	switch {
	case err != nil || catalog.Scheme == "":
		p.Kind, p.Address, p.Python, p.JDBC = "sqlite", l.Catalog, "sqlite:///"+l.Catalog, "jdbc:sqlite:"+l.Catalog
	case strings.HasPrefix(catalog.Scheme, "postgres"):
		catalog.Scheme = "postgresql+psycopg2"
		p.Kind, p.Python, p.JDBC = "postgres", catalog.String(), "jdbc:postgresql://"+catalog.Host+catalog.Path
	default:
		for _, name := range []string{restCredential, restToken} {
			if value, _ := env(name); value != "" {
				p.Secret, p.HasToken = name, name == restToken
			}
		}
	}
	if p.Kind != "rest" && strings.HasPrefix(p.Warehouse, "/") {
		p.Warehouse = (&url.URL{Scheme: "file", Path: p.Warehouse}).String()
	}
	if p.InBucket {
		general, _ := env("AWS_ENDPOINT_URL")
		own, _ := env("AWS_ENDPOINT_URL_S3")
		p.Endpoint = cmp.Or(own, general)
		p.Unencrypted = strings.HasPrefix(p.Endpoint, "http://")
		if endpoint, err := url.Parse(p.Endpoint); err == nil {
			p.EndpointHost = endpoint.Host
		}
	}
	return p
}

// globText returns a pattern that matches only the given path.
func globText(path string) string {
	return strings.NewReplacer("[", "[[]", "*", "[*]", "?", "[?]").Replace(path)
}

// shellText quotes a text as a word of a POSIX shell.
func shellText(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

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

func schemaCommand(g *globals) *cobra.Command {
	return group("schema", "Print the tables, the job file's schema, or schema drift", "",
		&cobra.Command{
			Use: "tables", Short: "Print every table and column, as in docs/tables.md",
			RunE: func(*cobra.Command, []string) error {
				var all []tableColumn
				for _, t := range schema.AllTables() {
					for _, c := range t.All() {
						all = append(all, tableColumn{t.Name, c.Name, c.SQLType(), c.Path, c.Comment})
					}
				}
				return g.out.print(all, "%s", schema.Markdown())
			},
		},
		&cobra.Command{
			Use: "config", Short: "Print the JSON Schema of the job file, for editors",
			RunE: func(*cobra.Command, []string) error {
				_, err := g.out.w.Write(job.Schema())
				return err
			},
		},
		driftCommand(g))
}

func driftCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use: "drift", Short: "List fields of answers that the interface does not have",
		Long: `List the fields of answers that the interface does not have, or that have another type
there: path, problem, count, dates and an example. Their values are stored in the column
extra of their rows.`,
		RunE: g.inSession(toRead, func(_ context.Context, p *program, _ []string) error {
			all, err := p.Engine.Store.Learned.Drift()
			if err != nil {
				return err
			}
			columns := []string{"operation", "path", "problem", "count", "first_seen_at", "last_seen_at", "example"}
			return printList(g.out, all, columns, func(d schema.Drift) []any {
				return []any{string(d.Op), d.Path, d.Problem, d.Count, when(d.First), when(d.Last), d.Example}
			})
		}),
	}
}

// tableColumn is a column of a table.
type tableColumn struct {
	Table   string `json:"table"`
	Column  string `json:"column"`
	Type    string `json:"type"`
	Path    string `json:"path,omitempty"` // in an answer
	Comment string `json:"comment,omitempty"`
}
