package command

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"outlierd/cmd/outlierd/term"
	"outlierd/outlier"
	"outlierd/sinks/duckdb/query"
	"outlierd/sync/job"
)

// A view is what a command shows of channels or videos by id.
type view struct {
	table, key string
	few        string // the columns shown to people
	order      string // of the rows of one id
}

var (
	ofStatistics = view{"channel_statistics", "channel_id",
		"t.channel_id, t.kind, t.subscriber_count, t.videos_count, " +
			"t.median_views_estimate, t.average_views_estimate, t.positive_outliers_count", ", t.kind desc"}
	ofUploads = view{"channel_uploads", "channel_id", "t.title, t.kind, t.view_count, t.z_score, " + query.VideoLink +
		", t.published_at_estimate, t.average_views_ratio", ", t.kind desc, t.position"}
	ofDetails = view{"videos", "video_id", "t.title, t.view_count, t.like_count, t.comment_count, " + query.VideoLink +
		", t.channel_title, t.duration, t.published_at", ""}
	ofComments = view{"comments", "video_id",
		"t.author_text, t.likes_count, t.reply_count, t.published_at, t.text", ", t.position"}
	ofTranscript = view{"transcript_events", "video_id", "t.start_ms / 1000 as seconds, t.text", ", t.position"}
)

// rowsOf returns the query for the rows of ids.
func (v view) rowsOf(out *printer, ids []string) string {
	return query.RowsOf(v.table, v.key, out.columns(v.few), v.order, ids)
}

// A dataCommand fetches data about channels or videos by id.
type dataCommand struct {
	use, short, long string
	verb             job.Verb
	fetch            []outlier.Operation
	fresh            string // the maximum age of stored answers that are printed; "" for any
	parse            func(string) (string, error)
	show             func() view
}

const knownLong = `Stored answers are printed while they are fresh: channels for 7 days, comments for 2 days,
details for 1 day, transcripts permanently. --max-age requests older ones again, and what
the service did not have. No credits are spent. An id that begins with - comes after --.`

func (d *dataCommand) command(g *globals) *cobra.Command {
	body := wishes{"fetch": d.fetch}
	if d.fresh != "" {
		body["refresh_after"] = d.fresh
	}
	c := &cobra.Command{
		Use: d.use, Short: d.short, Long: d.long + "\n\n" + knownLong,
		RunE: func(c *cobra.Command, args []string) error {
			var ids []string
			for _, arg := range args {
				id, err := d.parse(arg)
				if err != nil {
					return usageError{err}
				}
				if !slices.Contains(ids, id) {
					ids = append(ids, id)
				}
			}
			body["id"] = ids
			return runOnce(c.Context(), g, request{
				verb: d.verb, job: wishes{string(d.verb): body}, show: showFacts(c.Context(), g, d),
			})
		},
	}
	body.addFlags(c, "", "max-age")
	return c
}

// facts returns the query for the current data of the ids, and reports those that the service does not
// have.
func showFacts(ctx context.Context, g *globals, d *dataCommand) shower {
	return func(s showing) (string, error) {
		work, err := s.spec.Resolve(job.Inputs{
			Now: time.Now(),
			IDs: s.program.idsOf(ctx),
		})
		if err != nil {
			return "", err
		}
		return d.show().rowsOf(g.out, work.IDs), reportMissing(ctx, g, s.program.Engine.Config, work.IDs, d.fetch)
	}
}

func channelCommand(g *globals) *cobra.Command {
	uploads := false
	d := &dataCommand{
		use: "channel CHANNEL…", short: "Fetch and print a channel's statistics or uploads; free",
		long: `Fetch a channel's sampled videos and shorts, by id, address, handle or one of its videos,
and print its statistics for both, or with --uploads the videos and shorts. The service knows
channels only by id: the id comes from your tables, from the details of the video, which are
free, or for a handle from a search after confirmation.`,
		verb: job.VerbChannels, fetch: []outlier.Operation{outlier.OpChannelVideos, outlier.OpChannelShorts},
		fresh: "7d", parse: outlier.ParseChannel,
		show: func() view {
			if uploads {
				return ofUploads
			}
			return ofStatistics
		},
	}
	c := d.command(g)
	c.Flags().BoolVar(&uploads, "uploads", false, "print the sampled videos and shorts")
	g.spending.addFlags(c) // for unknown handles
	return c
}

func videoCommand(g *globals) *cobra.Command {
	return videoData("video", "details", "the description and current numbers", "1d", outlier.OpDetails,
		ofDetails).command(g)
}

func commentsCommand(g *globals) *cobra.Command {
	return videoData("comments", "last comments", "the last 100 comments", "2d", outlier.OpComments,
		ofComments).command(g)
}

func transcriptCommand(g *globals) *cobra.Command {
	return videoData("transcript", "transcript", "the transcript, line by line", "", outlier.OpTranscript,
		ofTranscript).command(g)
}

func videoData(name, what, does, fresh string, op outlier.Operation, v view) *dataCommand {
	return &dataCommand{
		use: name + " VIDEO…", short: fmt.Sprintf("Fetch and print a video's %s; free", what),
		long: fmt.Sprintf("Fetch and print, for videos by id or address, %s.", does),
		verb: job.VerbVideos, fetch: []outlier.Operation{op}, fresh: fresh, parse: outlier.ParseVideoID,
		show: func() view { return v },
	}
}

// reportMissing says which of the ids the service does not have.
func reportMissing(ctx context.Context, g *globals, config *job.Config, ids []string, asked []outlier.Operation) error {
	return query.Missing(ctx, published(config), ids, func(operation, id, at any) {
		if endpoint, _ := operation.(string); slices.Contains(asked, outlier.Operation(endpoint)) {
			fmt.Fprintf(g.world.err, "the service has no %s of %s (checked %s); it is asked again after 30 days, "+
				"or now with --max-age 1m\n", operation, term.Plain(term.Raw(id)), term.Raw(second(at)))
		}
	})
}
