package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"outlierd/cmd/outlierd/term"
)

func pruneCommand(o *options) *cobra.Command {
	var compact bool
	c := &cobra.Command{
		Use: "prune", Short: "Prune the journal by its retention",
		Long: `Remove the bodies of answers that retention.journal does not keep, and give the space back.
Their headers stay in the journal, and their rows in the sinks. What a sink has not published
yet, what an unfinished run may still need, and what a job may use again is kept all the same.

'outlierd up' does this by itself, a little at a time. This is for those who call 'outlierd run'
by a timer, and for a state that an earlier version made: its file gets smaller only with
--compact, which writes it anew and needs as much free space. A running daemon has to be
stopped first.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.prune(c.Context(), compact) },
	}
	c.Flags().BoolVar(&compact, "compact", false, "write the state's file anew, without the space that is free in it")
	return c
}

// prunedNow is what programs are told of a journal that was pruned.
type prunedNow struct {
	Answers int64 `json:"answers"` // that lost their bodies now
	UpTo    int64 `json:"up_to"`   // the last answer of which the journal has no body
	Bytes   int64 `json:"bytes"`   // of the state's file
	Free    int64 `json:"free"`    // of these, which nothing uses
}

func (o *options) prune(ctx context.Context, compact bool) error {
	config, err := o.loadToRead()
	if err != nil {
		return err
	}
	if !config.Retention.Any() && !compact {
		return o.done(prunedNow{}, "%s has no retention.journal: everything is kept\n", o.config)
	}
	log, err := o.logger()
	if err != nil {
		return err
	}
	return o.alone(ctx, config, func(p *program) error {
		memory, err := o.duckdbMemory()
		if err != nil {
			return err
		}
		p.addSinks(ctx, o, stateFolder(config), memory)
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
	text := fmt.Sprintf("%s pruned, up to answer %d; the state has %s, %s of it free\n", term.Count(now.Answers, "answer"), now.UpTo,
		megabytes(now.Bytes), megabytes(now.Free))
	if !room.Shrinks && room.Free > 0 {
		text += "an earlier version made its file, so that the free space stays in it for later answers; --compact gives it back\n"
	}
	return o.done(now, "%s", text)
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }
