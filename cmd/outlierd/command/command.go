package command

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"outlierd/cmd/outlierd/report"
	"outlierd/cmd/outlierd/term"
	"outlierd/schema"
	"outlierd/sync/backup"
	"outlierd/sync/forecast"
	"outlierd/sync/job"
	"outlierd/sync/marks"
	"outlierd/sync/runs"
	"outlierd/sync/serve"
)

// globals are the flags that every command has, and what its command line works with.
type globals struct {
	world     world
	out       *printer       // of results
	command   *cobra.Command // that was typed
	started   bool           // its command line was valid
	config    string
	logLevel  string
	logFormat string
	logs      io.Writer // for log lines; nil for standard error
	spending  *spending
}

func newGlobals(w world) *globals {
	if w.dial == nil {
		w.dial = serve.Dial
	}
	return &globals{world: w, out: newPrinter(w.out, w.env), spending: &spending{}}
}

// defaultConfig is the job file of commands without --config.
const defaultConfig = "jobs.yaml"

// newCommand returns the root command.
func newCommand(g *globals) *cobra.Command {
	w := g.world
	root := &cobra.Command{
		Use:   "outlierd",
		Short: "Buy outlier-video data on a schedule, within a budget, into DuckDB and Parquet",
		Long: `outlierd runs the jobs of a jobs.yaml: it searches a paid, rate-limited service,
fetches details of the hits, and stores everything in tables.

  outlierd demo            try it, without a key or a network
  outlierd init            write a jobs.yaml of your own
  outlierd run             run a job now
  outlierd up              run all jobs on their schedules
  outlierd sql "select …"  query the tables
  outlierd search "…"      search once, without a job

All commands work beside 'outlierd up', and those that only read beside any other.

Results go to standard output, everything else to standard error. Exit codes: 0 done,
1 failed, 2 usage, 3 partial, 4 stopped by budget or quota, 5 configuration invalid,
6 another instance holds the state, 7 key refused, 130 interrupted.

Environment: OUTLIERD_CONFIG names the job file and OUTLIERD_DATA the data folder. The
job file takes the rest from it where it says ${NAME}, as in key: ${OUTLIERD_KEY}.
HTTPS_PROXY and NO_PROXY are respected.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },

		PersistentPreRunE: func(c *cobra.Command, _ []string) error {
			g.command = c
			return g.prepare()
		},
	}
	root.SetIn(w.in)
	root.SetOut(w.out)
	root.SetErr(w.err)
	config, _ := w.env("OUTLIERD_CONFIG")
	flags := root.PersistentFlags()
	flags.StringVarP(&g.config, "config", "c", cmp.Or(config, defaultConfig), "the job file (env OUTLIERD_CONFIG)")
	flags.StringVarP(&g.out.format, "output", "o", "table", "how to print results: "+term.OneOf(term.Formats))
	flags.BoolVar(&g.out.wide, "wide", false, "print all columns of a table and all text, however wide")
	flags.StringVar(&g.logLevel, "log-level", "info", term.OneOf(logLevels))
	flags.StringVar(&g.logFormat, "log-format", "auto", term.OneOf(logFormats)+": text at a terminal, json elsewhere")
	root.Version = version()
	root.SetVersionTemplate("outlierd {{.Version}}\n")
	addCommands(root, g)
	addCompletion(root, g.completeJob)
	prepareCommand(root, &g.started)
	return root
}

// addCommands adds the commands to root, in the groups of the help.
func addCommands(root *cobra.Command, g *globals) {
	for _, g := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Get started:", []*cobra.Command{demoCommand(g), initCommand(g), lintCommand(g)}},
		{"Jobs:", []*cobra.Command{planCommand(g), runCommand(g), upCommand(g), pauseCommand(g),
			resumeCommand(g), backfillCommand(g), queueCommand(g), cursorCommand(g)}},
		{"One-off requests:", []*cobra.Command{
			searchCommand(g), relatedCommand(g), findChannelsCommand(g), trendingFormatsCommand(g), scanCommand(g),
			channelCommand(g), channelsCommand(g), videoCommand(g), commentsCommand(g), transcriptCommand(g),
		}},
		{"Inspect:", []*cobra.Command{statusCommand(g), runsCommand(g), sqlCommand(g), exportCommand(g), shareCommand(g),
			connectCommand(g), mcpCommand(g), whyCommand(g), budgetCommand(g), schemaCommand(g), checkCommand(g),
			doctorCommand(g), healthCommand(g), openCommand(g), markCommand(g), importCommand(g), notifyCommand(g), reportCommand(g)}},
		{"Maintenance:", []*cobra.Command{
			backupCommand(g), restoreCommand(g), rebuildCommand(g), pruneCommand(g), forgetCommand(g),
		}},
	} {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, c := range g.commands {
			c.GroupID = g.title
		}
		root.AddCommand(g.commands...)
	}
	root.AddCommand(simulateCommand(g), manCommand(g), versionCommand(g), answerCommand(g), downloadCommand(g), playCommand(g))
}

// # Documents
//
// With -o json a command prints one document: a value of one type, or a list of such values. From the types a test
// writes the lists of members in docs/commands.md.

//go:generate go test . -run TestManualHasTheDocuments|TestViewsPage -update

// documented is the document of commands: an empty value of its type.
type documented struct {
	commands string
	zero     any
}

// documents lists all documents.
var documents = []documented{
	{"backup, restore", backup.Backup{}},
	{"budget resume", serve.Lifted{}},
	{"budget, budget adjust", forecast.Budget{}},
	{"channels resolve", channelsResolved{}},
	{"check", checked{}},
	{"connect", []snippets{}},
	{"cursor reset", cursorsReset{}},
	{"cursor set", serve.SetCursors{}},
	{"cursor show", []runs.Watermark{}},
	{"doctor", setup{}},
	{"export", fileExported{}},
	{"forget", forgottenThings{}},
	{"health", health{}},
	{"import", serve.Imported{}},
	{"init, man", filesWritten{}},
	{"lint", linted{}},
	{"mark", []marks.Mark{}},
	{"notify test", testSent{}},
	{"open", pageAt{}},
	{"pause", []runs.Pause{}},
	{"plan", forecast.Forecast{}},
	{"prune", prunedNow{}},
	{"queue", []forecast.Waiting{}},
	{"queue clear", serve.Cleared{}},
	{"rebuild", rebuilt{}},
	{"report preview", previewWritten{}},
	{"resume", jobsResumed{}},
	{"run --cancel", runCancelled{}},
	{"run --dry-run, backfill --dry-run", []report.Price{}},
	{"run, backfill", []*report.Run{}},
	{"runs", []runs.Run{}},
	{"runs RUN", report.Run{}},
	{"scan adopt", runs.Scan{}},
	{"scan list", []runs.Scan{}},
	{"scan resolve", scanResolved{}},
	{"schema drift", []schema.Drift{}},
	{"schema tables", []tableColumn{}},
	{"share", fileShared{}},
	{"simulate", simulatorAt{}},
	{"status", forecast.Status{}},
	{"version", versions{}},
	{"why", report.Origin{}},
}

// mustBeListed panics if the manual does not have the documents of a type.
func mustBeListed(of reflect.Type) {
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if !slices.ContainsFunc(documents, func(d documented) bool { return reflect.TypeOf(d.zero) == of }) {
		panic(fmt.Sprintf("documents lacks %s", of))
	}
}

// group returns a command that only has subcommands.
func group(use, short, long string, below ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Long: long,
		RunE: func(c *cobra.Command, _ []string) error {
			var names []string
			for _, sub := range c.Commands() {
				names = append(names, sub.Name())
			}
			return usageError{fmt.Errorf("'%s' needs one of its commands: %s", c.CommandPath(), strings.Join(names, ", "))}
		}}
	c.AddCommand(below...)
	return c
}

// load reads the job file.
func (g *globals) load() (*job.Config, error) { return g.loadBy(job.Load) }

// loadForOnce loads the job file for a one-off request, which needs no jobs in it.
func (g *globals) loadForOnce() (*job.Config, error) { return g.loadBy(job.LoadForOnce) }

// loadToRead loads the job file for a command that makes no calls and needs no key.
func (g *globals) loadToRead() (*job.Config, error) { return g.loadBy(job.LoadToRead) }

// loadSecrets is [globals.loadToRead] for a command that needs the targets of notifications.
func (g *globals) loadSecrets(ctx context.Context) (*job.Config, error) {
	config, err := g.loadToRead()
	if err != nil {
		return nil, err
	}
	return config.RunCommands(ctx)
}

func (g *globals) loadBy(load func(string, func(string) (string, bool)) (*job.Config, error)) (*job.Config, error) {
	config, err := load(g.config, g.world.env)
	if err == nil {
		g.out.zone = config.Timezone
	}
	return config, err
}
