package command

import (
	"context"

	"github.com/spf13/cobra"

	"outlierd/cmd/outlierd/report"
	"outlierd/cmd/outlierd/term"
)

func pruneCommand(g *globals) *cobra.Command {
	var compact bool
	c := &cobra.Command{
		Use: "prune", Short: "Prune the journal according to its retention",
		Long: `Remove the bodies of answers beyond retention.journal, and return the space to the disk. Their
headers stay in the journal, and their rows in the sinks. An older answer is kept as long as a
sink has not published it, an unfinished run may need it, or a job may reuse it.

'outlierd up' prunes by itself, in small steps. Use this command if a timer calls 'outlierd
run'. --compact rewrites the file, which needs as much free space. Stop a running daemon first.`,
		RunE: func(c *cobra.Command, _ []string) error {
			config, err := g.loadToRead()
			if err != nil {
				return err
			}
			if config.Retention == 0 && !compact {
				return g.out.print(prunedNow{}, "%s has no retention.journal: everything is kept\n", g.config)
			}
			return g.with(c.Context(), config, toRepair, func(p *program) error {
				return pruneJournal(c.Context(), g.out, p, compact)
			})
		},
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

func pruneJournal(ctx context.Context, out *printer, p *program, compact bool) error {
	journal, db := p.Engine.Store.Journal, p.Engine.Store.DB
	before, err := journal.Pruned()
	if err != nil {
		return err
	}
	end, err := journal.End()
	if err != nil {
		return err
	}
	show := journalProgress(out, p.Engine.Log, "pruned")
	now := prunedNow{UpTo: before}
	err = p.Engine.Prune(ctx, func(upTo int64) { now.UpTo = upTo; show(upTo, end) })
	out.block.Erase()
	if err == nil && compact {
		err = db.Compact(ctx)
	}
	if err != nil {
		return err
	}
	room, err := db.Inside()
	if err != nil {
		return err
	}
	now.Answers, now.Bytes, now.Free = now.UpTo-before, room.Bytes, room.Free
	return out.print(now, "%s pruned, up to answer %d; the state has %s, %s of it free\n",
		term.Count(now.Answers, "answer"), now.UpTo, report.Size(now.Bytes), report.Size(now.Free))
}
