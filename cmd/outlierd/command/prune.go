package command

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"outlierd/cmd/outlierd/report"
	"outlierd/cmd/outlierd/term"
)

func pruneCommand(o *options) *cobra.Command {
	var compact bool
	c := &cobra.Command{
		Use: "prune", Short: "Prune the journal according to its retention",
		Long: `Remove the bodies of answers beyond retention.journal, and return the space to the disk. Their
headers stay in the journal, and their rows in the sinks. An older answer is kept as long as a
sink has not published it, an unfinished run may need it, or a job may reuse it.

'outlierd up' prunes by itself, in small steps. Use this command if a timer calls 'outlierd
run'. --compact rewrites the file, which needs as much free space. Stop a running daemon first.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.pruneJournal(c.Context(), compact) },
	}
	c.Flags().BoolVar(&compact, "compact", false, "rewrite the state file without its free space")
	return c
}

// prunedNow is the output of prune for programs.
type prunedNow struct {
	Answers int64 `json:"answers"` // whose bodies were removed now
	UpTo    int64 `json:"up_to"`   // the last answer without a body in the journal
	Bytes   int64 `json:"bytes"`   // of the state's file
	Free    int64 `json:"free"`    // of these, unused
}

var prunedJournal = documentOf[prunedNow]("prune")

func (o *options) pruneJournal(ctx context.Context, compact bool) error {
	config, err := o.loadToRead()
	if err != nil {
		return err
	}
	if !config.Retention.Any() && !compact {
		return prunedJournal.print(o, prunedNow{}, "%s has no retention.journal: everything is kept\n", o.config)
	}
	log, err := o.logger()
	if err != nil {
		return err
	}
	return o.with(ctx, config, toRepair, func(p *program) error {
		store := p.Engine.Store
		before, err := store.Journal.Pruned()
		if err != nil {
			return err
		}
		end, err := store.Journal.End()
		if err != nil {
			return err
		}
		show := o.journalProgress(log, "pruned")
		now := prunedNow{UpTo: before}
		err = p.Engine.Prune(ctx, func(upTo int64) { now.UpTo = upTo; show(upTo, end) })
		o.block.Erase()
		if err != nil {
			return err
		}
		if compact {
			if err := store.DB.Compact(ctx); err != nil {
				return err
			}
		}
		now.Answers = now.UpTo - before
		return o.printPruned(p, now)
	})
}

func (o *options) printPruned(p *program, now prunedNow) error {
	room, err := p.Engine.Store.DB.Inside()
	if err != nil {
		return err
	}
	now.Bytes, now.Free = room.Bytes, room.Free
	text := fmt.Sprintf("%s pruned, up to answer %d; the state has %s, %s of it free\n",
		term.Count(now.Answers, "answer"), now.UpTo, report.Size(now.Bytes), report.Size(now.Free))
	return prunedJournal.print(o, now, "%s", text)
}
