package command

import (
	"errors"

	"github.com/spf13/cobra"

	"outlierd/sync/job"
)

func relatedCommand(o *options) *cobra.Command {
	var pages pageFlags
	var enrich enrichFlags
	var titles, channels []string
	var thumbnail, by string
	c := &cobra.Command{
		Use:   "related [VIDEO…]",
		Short: "Find hits similar to videos or channels; 2 credits a page",
		Long: `Find hits similar to videos (by id or address), titles, a thumbnail or channels, and print
them, best first. At least one of them is required. An id that begins
with - comes after --, as in: outlierd related -- -abcdefghij`,
		Example: `  outlierd related dQw4w9WgXcQ --where published_at="last 90d"
  outlierd related --title "the best moka pot" --pages 2`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, videos []string) error {
			if len(videos)+len(titles)+len(channels) == 0 && thumbnail == "" {
				return usageError{errors.New("nothing to relate to: name videos, or pass --title, " +
					"--thumbnail or --channel")}
			}
			related := wishes{}
			related.list("video_id", videos)
			related.list("title", titles)
			related.list("related_channel_id", channels)
			related.set("thumbnail_video_id", thumbnail)
			related.set("by", by)
			return o.askOnce(c.Context(), job.VerbRelated, related, &pages, &enrich)
		},
	}
	pages.add(c, "hits", filtersOfVideos, "")
	pages.addAgain(c)
	enrich.add(c, kindsOfVideos)
	flags := c.Flags()
	flags.StringArrayVar(&titles, "title", nil, "a title to relate to; repeatable")
	flags.StringArrayVar(&channels, "channel", nil, "a channel to relate to, by id or address; repeatable")
	flags.StringVar(&thumbnail, "thumbnail", "", "a video with a similar thumbnail, by id or address")
	flags.StringVar(&by, "by", "", "semantic (meaning of words) or lexical (exact words)")
	return c
}
