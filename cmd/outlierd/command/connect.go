package command

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/spf13/cobra"

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
		"shell": shellText, "sql": sqlText, "quote": quoted,
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
	File    string // the published DuckDB file
	Parquet string // the folder of the Parquet files
	Bucket  string // the address of the bucket with copies of them
	Lake    *lakePlace
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
			p.File = path
		case sink.Kind == job.SinkParquet && p.Parquet == "":
			p.Parquet, p.Bucket = path, sink.Bucket
		}
	}
	return p, nil
}

// Folder returns the folder of outliers as last seen.
func (p *places) Folder() string { return filepath.Join(p.Parquet, "outliers") }

// Current returns a pattern for the Parquet files of outliers as last seen.
func (p *places) Current() string {
	return filepath.ToSlash(globText(p.Parquet)) + "/outliers/*.parquet"
}

// History returns a pattern for the files of all sightings.
func (p *places) History() string {
	return filepath.ToSlash(globText(p.Parquet)) + "/outliers_history/**/*.parquet"
}

// FileFolder returns the folder of the DuckDB file.
func (p *places) FileFolder() string { return filepath.Dir(p.File) }

// InAzure reports whether the bucket is a container of Azure.
func (p *places) InAzure() bool { return strings.HasPrefix(p.Bucket, "az://") }

// lakePlace is a lake as tools open it.
type lakePlace struct {
	Kind      string // kind of the catalog: sqlite, postgres or rest
	Warehouse string // the address of the files, or the name of the warehouse in a REST catalog
	Namespace string
	Endpoint  string // of a store other than Amazon's; else ""
	Secret    string // the variable with the token or credential of a REST catalog; else ""

	catalog *url.URL // without a password; for sqlite only a path
}

// The variables with what a REST catalog asks for; the last that is set counts.
const (
	restCredential = "ICEBERG_REST_CREDENTIAL"
	restToken      = "ICEBERG_REST_TOKEN"
)

func lakePlaceOf(l *job.Lake, env lookup) *lakePlace {
	p := &lakePlace{Kind: "rest", Warehouse: l.Warehouse, Namespace: l.Namespace}
	u, err := url.Parse(l.Catalog)
	switch {
	case err != nil || u.Scheme == "":
		p.Kind, u = "sqlite", &url.URL{Path: l.Catalog}
	case strings.HasPrefix(u.Scheme, "postgres"):
		p.Kind = "postgres"
	default:
		for _, name := range []string{restCredential, restToken} {
			if value, _ := env(name); value != "" {
				p.Secret = name
			}
		}
	}
	if u.User != nil {
		u.User = url.User(u.User.Username())
	}
	u.RawQuery = ""
	p.catalog = u
	if p.Kind != "rest" && strings.HasPrefix(p.Warehouse, "/") {
		p.Warehouse = (&url.URL{Scheme: "file", Path: p.Warehouse}).String()
	}
	if p.InBucket() {
		general, _ := env("AWS_ENDPOINT_URL")
		own, _ := env("AWS_ENDPOINT_URL_S3")
		p.Endpoint = cmp.Or(own, general)
	}
	return p
}

// InBucket reports whether the files of the lake are in a bucket.
func (p *lakePlace) InBucket() bool { return strings.HasPrefix(p.Warehouse, "s3://") }

// Unencrypted reports whether the bucket is reached without TLS.
func (p *lakePlace) Unencrypted() bool { return strings.HasPrefix(p.Endpoint, "http://") }

// HasToken reports whether a REST catalog takes a token, in place of a credential.
func (p *lakePlace) HasToken() bool { return p.Secret == restToken }

// User returns the user of the database of the catalog.
func (p *lakePlace) User() string { return p.catalog.User.Username() }

// EndpointHost returns host and port of the bucket.
func (p *lakePlace) EndpointHost() string {
	u, err := url.Parse(p.Endpoint)
	if err != nil {
		return ""
	}
	return u.Host
}

// Address returns the address of the catalog.
func (p *lakePlace) Address() string {
	if p.Kind == "sqlite" {
		return p.catalog.Path
	}
	return p.catalog.String()
}

// PythonAddress returns the address of the catalog for SQLAlchemy.
func (p *lakePlace) PythonAddress() string {
	address := *p.catalog
	if p.Kind == "postgres" {
		address.Scheme = "postgresql+psycopg2"
	}
	return address.String()
}

// JDBC returns the address of a SQL catalog's database for Java.
func (p *lakePlace) JDBC() string {
	if p.Kind == "sqlite" {
		return "jdbc:sqlite:" + p.catalog.Path
	}
	return "jdbc:postgresql://" + p.catalog.Host + p.catalog.Path
}

// globText returns a pattern that matches only the given path.
func globText(path string) string {
	return strings.NewReplacer("[", "[[]", "*", "[*]", "?", "[?]").Replace(path)
}

// shellText quotes a text as a word of a POSIX shell.
func shellText(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// sqlText quotes a text as a SQL literal.
func sqlText(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

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
