package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"outlierd/cmd/outlierd/term"
	"outlierd/outlier"
	"outlierd/sync/job"
	"outlierd/sync/runs"
)

func channelsCommand(g *globals) *cobra.Command {
	return group("channels", "Find the ids of channels for a file of them",
		"The service knows channels only by id.", channelsResolveCommand(g))
}

func channelsResolveCommand(g *globals) *cobra.Command {
	var column string
	c := &cobra.Command{
		Use: "resolve FILE", Short: "Replace handles and videos in a file by channel ids",
		Long: `Replace the handles, videos and addresses in a file of channels by channel ids. Ids come
from your tables first, then from the details of videos, which are free, and at last from a
search for each handle, which costs 5 credits. The price is printed first. What stood in a
line becomes a comment. Channels that are not found stay as they are, and the exit code is 3.`,
		Example: `  outlierd channels resolve rivals.txt --dry-run
  outlierd channels resolve rivals.csv --column channel`,
		RunE: func(c *cobra.Command, args []string) error {
			config, err := g.loadForOnce()
			if err != nil {
				return err
			}
			if published(config) == "" {
				return noFile(config)
			}
			list, err := job.ReadChannels(args[0], column)
			if err != nil {
				return usageError{err}
			}
			which := func(r *runner) ([]jobRun, error) {
				if err := printChannelsPrice(c.Context(), g.world.err, r.p, list); err != nil || !g.spending.dryRun {
					return nil, err
				}
				return nil, idle("")
			}
			return spend(c.Context(), g, config, which, func(r *runner, ctx context.Context, _ []jobRun) error {
				return r.resolveChannels(ctx, list)
			})
		},
	}
	c.Flags().StringVar(&column, "column", "", "the column with the channels, if the file is a table")
	g.spending.addFlags(c)
	return c
}

// printChannelsPrice prints what it costs at most to find the ids of the channels in a list.
func printChannelsPrice(ctx context.Context, w io.Writer, p *program, list *job.ChannelList) error {
	known, err := job.IdentifyChannels(list.Names, p.idsOf(ctx))
	if err != nil {
		return err
	}
	unknown, handles := unidentified(known)
	price := p.Engine.Config.Service.Prices.Of(outlier.OpFindChannels, "") * outlier.Credits(len(unknown))
	fmt.Fprintf(w, "%s: %d known, %d to look up as videos for free, %d to search for; at most %s\n",
		term.Count(len(known), "channel"), len(known)-len(unknown), len(unknown)-handles, handles,
		term.Count(price, "credit"))
	return nil
}

// channelsResolved is the output of channels resolve for programs.
type channelsResolved struct {
	Changed int      `json:"changed"` // lines of the list
	Unknown []string `json:"unknown"` // names without an id
}

// resolveChannels finds the ids of the channels in a list and writes them into its file.
func (r *runner) resolveChannels(ctx context.Context, list *job.ChannelList) error {
	known, err := job.IdentifyChannels(list.Names, r.p.idsOf(ctx))
	if err != nil {
		return err
	}
	var failed error
	if unknown, _ := unidentified(known); len(unknown) > 0 {
		failed = r.findChannels(ctx, unknown)
		if known, err = job.IdentifyChannels(list.Names, r.p.idsOf(ctx)); err != nil {
			return errors.Join(failed, err)
		}
	}
	changed, err := list.Write(known) // also what was found before it failed
	if err = errors.Join(failed, err); err != nil {
		return err
	}
	unknown, _ := unidentified(known)
	err = r.g.out.print(channelsResolved{changed, unknown}, "%s replaced by ids\n",
		term.Count(changed, "line"))
	if err != nil || len(unknown) == 0 {
		return err
	}
	fmt.Fprintf(r.g.world.err, "not found: %s\n", term.Plain(strings.Join(unknown, ", ")))
	return statusError{runs.Partial}
}

// unidentified returns the channels without an id, sorted, and how many of them can only be handles.
func unidentified(known map[string]string) (unknown []string, handles int) {
	unknown = []string{}
	for name, id := range known {
		if id != "" {
			continue
		}
		unknown = append(unknown, name)
		if strings.HasPrefix(name, "@") {
			handles++
		}
	}
	slices.Sort(unknown)
	return unknown, handles
}

// idsOf returns the function that runs the SQL of a list over the published tables.
func (p *program) idsOf(ctx context.Context) func(sql, column string) ([]string, error) {
	return func(sql, column string) ([]string, error) { return p.Engine.IDs(ctx, sql, column) }
}
