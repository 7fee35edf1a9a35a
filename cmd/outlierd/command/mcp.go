package command

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"outlierd/cmd/outlierd/mcp"
	"outlierd/cmd/outlierd/page"
	"outlierd/outlier"
	"outlierd/sinks/duckdb/database"
	"outlierd/sinks/duckdb/query"
	"outlierd/sync/forecast"
	"outlierd/sync/job"
)

func mcpCommand(g *globals) *cobra.Command {
	var listen string
	c := &cobra.Command{
		Use:   "mcp",
		Short: "Serve assistants by the Model Context Protocol",
		Long: `Serve an assistant by the Model Context Protocol: it can query the tables, find outliers in
them, and search the service for more, as the commands of the same names do, beside
'outlierd up' or without it. By default it talks over standard input and output, as clients
expect that start it. --listen serves clients on this machine over HTTP, at the path /mcp;
they send mcp.token of the job file.

An assistant can spend credits only if mcp.budget of the job file says how many a day and a
session, and only with allow_spend: true. By default that is 0. The other caps apply, too.`,
		Example: `  outlierd mcp
  outlierd mcp --listen 127.0.0.1:7412`,
		RunE: func(c *cobra.Command, _ []string) error {
			config, err := g.loadToRead()
			if err != nil {
				return err
			}
			if listen == "" {
				return mcp.Serve(c.Context(), forAssistants(g), g.world.in, g.out.w)
			}
			token := config.Assistants.Token.Reveal()
			switch host, _, err := net.SplitHostPort(listen); {
			case err != nil || !(job.Daemon{Listen: listen}).Private() || host == "":
				return usageError{fmt.Errorf("--listen must be an address of this machine, such as 127.0.0.1:7412, got %s", listen)}
			case token == "":
				return fmt.Errorf("%s has no token for --listen; add mcp: {token: \"${OUTLIERD_MCP_TOKEN}\"}, and set the variable", config.Path)
			}
			port, err := new(net.ListenConfig).Listen(c.Context(), "tcp", listen)
			if err != nil {
				return fmt.Errorf("--listen: %w", err)
			}
			fmt.Fprintf(g.world.err, "http://%s/mcp\n", port.Addr())
			return mcp.ServeHTTP(c.Context(), forAssistants(g), port, token)
		},
	}
	c.Flags().StringVar(&listen, "listen", "", "serve HTTP at this address of this machine, such as 127.0.0.1:7412")
	return c
}

// # Tools of assistants
//
// A tool that acts or shows a document does it by the command of its name, in this process, with -o json. So
// prices, caps, mistakes and the way to the daemon are those of the command, and between two calls this
// process holds nothing. The job file is read for each call.

// forAssistants returns what the server for assistants uses.
func forAssistants(g *globals) mcp.Program {
	return mcp.Program{
		Version: version(),
		Run:     func(ctx context.Context, c mcp.Command) (*mcp.Done, error) { return runFor(ctx, g, c) },
		Query: func(ctx context.Context, sql string, most int) (*mcp.Rows, error) {
			return byJobFile(g, func(config *job.Config) (*mcp.Rows, error) { return queryFor(ctx, config, sql, most) })
		},
		Find: func(f mcp.Filter) (string, error) {
			return byJobFile(g, func(config *job.Config) (sql string, err error) {
				if f.Order != "" && query.Orders[f.Order] == "" {
					return "", fmt.Errorf("order: there is no %q; use ratio, score, views, gain, found, published or subscribers", f.Order)
				}
				wanted := query.Outliers{Words: f.Words, Week: f.New, Order: f.Order, Now: time.Now(),
					Chosen: map[string][]string{"query": {f.Query}, "job": {f.Job}, "channel": {f.Channel}}}
				wanted.Where, err = conditionsOf(config, mcp.WritePairs(f.Where))
				return wanted.Plain(), err
			})
		},
		Budget: func(ctx context.Context) (b *forecast.Budget, err error) {
			err = g.aside().withState(ctx, toRead, func(ctx context.Context, p *program) (err error) {
				b, err = budgetOf(ctx, p)
				return err
			})
			return b, err
		},
		JobFile: func() (string, error) {
			return byJobFile(g, func(config *job.Config) (string, error) { return config.Shown(), nil })
		},
	}
}

// byJobFile returns what f reads from the job file as it is now. Several calls may do so at once.
func byJobFile[T any](g *globals, f func(*job.Config) (T, error)) (got T, err error) {
	config, err := g.aside().loadToRead()
	if err != nil {
		return got, err
	}
	return f(config)
}

// runFor runs another command as if it had been typed with -o json.
func runFor(ctx context.Context, g *globals, c mcp.Command) (*mcp.Done, error) {
	var out, said bytes.Buffer
	w := g.world
	w.in, w.out, w.err, w.args = strings.NewReader(""), &out, &said, c.Args
	inner := newGlobals(w)
	inner.logs = g.world.err
	root := newCommand(inner)
	inner.config, inner.logLevel, inner.logFormat = g.config, g.logLevel, g.logFormat
	inner.out.format, inner.out.brief = "json", true
	*inner.spending = spending{yes: true, dryRun: c.DryRun, assistant: !c.DryRun, most: int64(c.Most)}
	root.SetArgs(c.Args)
	_, err := root.ExecuteContextC(ctx)
	done := &mcp.Done{Out: out.Bytes(), Said: strings.TrimSpace(said.String()), Spent: inner.spending.spent, Prices: inner.spending.prices}
	if n := len(inner.spending.outcomes); n > 0 {
		done.Status = string(inner.spending.outcomes[n-1].Status)
	}
	if err != nil {
		err = errors.New(cmp.Or(strings.TrimPrefix(errorMessage(ctx, err), "outlierd: "), inner.spending.ended, err.Error()))
	}
	return done, err
}

// queryFor runs SQL in a process of its own.
func queryFor(ctx context.Context, config *job.Config, sql string, most int) (*mcp.Rows, error) {
	tables := &page.Tables{Path: published(config), Zone: config.Timezone}
	if tables.Path == "" {
		return nil, noFile(config)
	}
	got, err := tables.First(ctx, query.Process{Command: newAnswerer}, sql)
	if errors.Is(err, page.ErrNothingPublished) {
		return nil, explainQuery(tables.Path, query.ErrNotPublished)
	}
	if err != nil {
		return nil, err
	}
	rows := &mcp.Rows{Rows: [][]any{}, More: got.More || len(got.Rows) > most}
	for _, c := range got.Columns {
		rows.Columns = append(rows.Columns, c.Name)
	}
	for _, row := range got.Rows[:min(most, len(got.Rows))] {
		cells := make([]any, len(row))
		for i, text := range row {
			if text != nil {
				cells[i] = *text
			}
			if text != nil && got.Columns[i].IsNumber() && json.Valid([]byte(*text)) {
				cells[i] = json.Number(*text)
			}
		}
		rows.Rows = append(rows.Rows, cells)
	}
	return rows, nil
}

// hitColumns are the columns of the table outliers AS t that filters of a search compare.
var hitColumns = map[string]string{
	"type": "t.kind", "averageViewsRatio": "t.average_views_ratio", "zScore": "t.z_score", "viewCount": "t.view_count",
	"language": "t.language", "duration": "t.duration", "publishedAt": "t.published_at", "subscribersCount": "t.channel_subscribers",
	"channelId": "t.channel_id", "channelMonetizationAdsense": "t.channel_adsense", "classificationQuality": "t.quality",
	"classificationIsFaceless": "t.is_faceless", "rpmEstimation": "(t.rpm_estimation_from + t.rpm_estimation_to) / 2",
	"revenueEstimation": "(t.revenue_estimation_from + t.revenue_estimation_to) / 2",
}

// conditionsOf returns filters, KEY=VALUE as in a job, as conditions over the table outliers AS t.
func conditionsOf(config *job.Config, filters []string) (all []string, err error) {
	if len(filters) == 0 {
		return nil, nil
	}
	search := &oneOff{verb: job.VerbSearch, keys: job.Keys{"query": {"any"}}, names: map[string]string{}}
	for _, pair := range filters {
		if err := addFilter(search, "where", "where", pair); err != nil {
			return nil, fmt.Errorf("where %s: %w", pair, err)
		}
	}
	spec, err := onceSpec(config, search.request(), job.Overrides{})
	if err != nil {
		return nil, err
	}
	now, err := spec.Resolve(job.Inputs{Now: time.Now()})
	if err != nil {
		return nil, err
	}
	params := now.Asks[0].Query.Params()
	for _, p := range outlier.OpSearch.Params() {
		for _, name := range p.Names() {
			values, column := params[name], hitColumns[p.Name]
			if p.Role != outlier.Filter || len(values) == 0 {
				continue
			}
			if column == "" {
				return nil, fmt.Errorf("where %s: the tables do not have it; leave it out, or use search", strings.Join(job.Conditions(url.Values{name: values}), ""))
			}
			var texts []string
			for _, v := range values {
				texts = append(texts, database.Text(v))
			}
			switch { // DuckDB converts the texts to the type of the column
			case p.Name == name:
				all = append(all, column+" IN ("+strings.Join(texts, ", ")+")")
			case strings.HasSuffix(name, "From"):
				all = append(all, column+" >= "+texts[0])
			default:
				all = append(all, column+" <= "+texts[0])
			}
		}
	}
	return all, nil
}
