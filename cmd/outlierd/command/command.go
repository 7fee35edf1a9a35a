package command

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"outlierd/cmd/outlierd/report"
	"outlierd/cmd/outlierd/term"
	"outlierd/sync/job"
)

// options are the flags that every command has.
type options struct {
	world     world
	command   *cobra.Command // that was typed
	started   bool           // its command line was valid
	config    string
	output    string
	logLevel  string
	logFormat string
	spending  *spending
	brief     bool            // print the most important columns as JSON, too
	logs      io.Writer       // for log lines; nil for standard error
	wide      bool            // print every column of a table, and all of its text
	zone      *time.Location  // of the job file, once it is read; nil before
	printed   *countingWriter // standard output if it is for a program; else nil
	block     *term.Block     // progress of a run at a terminal
	ended     string          // why the run of a one-off command ended
	outcomes  []*report.Run   // of the runs that have ended
}

// defaultConfig is the job file of commands without --config.
const defaultConfig = "jobs.yaml"

// newCommand returns the root command.
func newCommand(o *options) *cobra.Command {
	w := o.world
	o.block, o.spending = term.NewBlock(w.out, o.screen), &spending{}
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

Results go to standard output, everything else to standard error. Exit codes: 0 done,
1 failed, 2 usage, 3 partial, 4 stopped by budget or quota, 5 configuration invalid,
6 another instance holds the state, 7 key refused, 130 interrupted.

Environment: OUTLIERD_CONFIG names the job file and OUTLIERD_DATA the data folder. The
job file takes the rest from it where it says ${NAME}, as in key: ${OUTLIERD_KEY}.
HTTPS_PROXY and NO_PROXY are respected.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noArguments,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },

		PersistentPreRunE: func(c *cobra.Command, _ []string) error {
			o.command = c
			return o.prepare()
		},
	}
	root.SetIn(w.in)
	root.SetOut(w.out)
	root.SetErr(w.err)
	config, _ := w.env("OUTLIERD_CONFIG")
	flags := root.PersistentFlags()
	flags.StringVarP(&o.config, "config", "c", cmp.Or(config, defaultConfig), "the job file (env OUTLIERD_CONFIG)")
	flags.StringVarP(&o.output, "output", "o", "table", "how to print results: "+term.OneOf(term.Formats))
	flags.BoolVar(&o.wide, "wide", false, "print all columns of a table and all text, however wide")
	flags.StringVar(&o.logLevel, "log-level", "info", term.OneOf(logLevels))
	flags.StringVar(&o.logFormat, "log-format", "auto", "text, json or auto: text at a terminal, json elsewhere")
	root.Version = version()
	root.SetVersionTemplate("outlierd {{.Version}}\n")
	addCommands(root, o)
	addCompletion(root, o.completeJob)
	noteStart(root, &o.started)
	return root
}

// addCommands adds the commands to root, in the groups of the help.
func addCommands(root *cobra.Command, o *options) {
	for _, g := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Get started:", []*cobra.Command{demoCommand(o), initCommand(o), lintCommand(o)}},
		{"Jobs:", []*cobra.Command{planCommand(o), runCommand(o), upCommand(o), pauseCommand(o),
			resumeCommand(o), backfillCommand(o), queueCommand(o), cursorCommand(o)}},
		{"One-off requests:", []*cobra.Command{
			searchCommand(o), relatedCommand(o), findChannelsCommand(o), trendingFormatsCommand(o), scanCommand(o),
			channelCommand(o), channelsCommand(o), videoCommand(o), commentsCommand(o), transcriptCommand(o),
		}},
		{"Inspect:", []*cobra.Command{statusCommand(o), runsCommand(o), sqlCommand(o), exportCommand(o), shareCommand(o),
			connectCommand(o), mcpCommand(o), whyCommand(o), budgetCommand(o), schemaCommand(o), checkCommand(o),
			doctorCommand(o), healthCommand(o), openCommand(o), markCommand(o), importCommand(o), notifyCommand(o), reportCommand(o)}},
		{"Maintenance:", []*cobra.Command{
			backupCommand(o), restoreCommand(o), rebuildCommand(o), pruneCommand(o), forgetCommand(o),
		}},
	} {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, c := range g.commands {
			c.GroupID = g.title
		}
		root.AddCommand(g.commands...)
	}
	root.AddCommand(simulateCommand(o), manCommand(o), versionCommand(o), answerCommand(o), downloadCommand(o), playCommand(o))
}

// group returns a command that only has subcommands.
func group(use, short, long string, below ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Long: long, Args: noArguments,
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
func (o *options) load() (*job.Config, error) { return o.loadBy(job.Load) }

// loadForOnce loads the job file for a one-off request, which needs no jobs in it.
func (o *options) loadForOnce() (*job.Config, error) { return o.loadBy(job.LoadForOnce) }

// loadToRead loads the job file for a command that makes no calls and needs no key.
func (o *options) loadToRead() (*job.Config, error) { return o.loadBy(job.LoadToRead) }

// loadSecrets is [options.loadToRead] for a command that needs the targets of notifications.
func (o *options) loadSecrets(ctx context.Context) (*job.Config, error) {
	config, err := o.loadToRead()
	if err != nil {
		return nil, err
	}
	return config.RunCommands(ctx)
}

func (o *options) loadBy(load func(string, func(string) (string, bool)) (*job.Config, error)) (*job.Config, error) {
	config, err := load(o.config, o.world.env)
	if err == nil {
		o.zone = config.Timezone
	}
	return config, err
}
