package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"outlierd/sync/job"
)

// What is shown to a person of each kind of row.
const (
	fewOutliers = "t.title, t.view_count, t.z_score, " + linkOfVideo + ", t.channel_title, t.published_at, t.average_views_ratio"
	fewChannels = "t.channel_id, t.title, t.handle, t.subscribers, t.average_views, t.language"
)

// linkOfVideo is where a video is watched; of an id in another form than known, the id.
const linkOfVideo = "case when regexp_full_match(t.video_id, '[A-Za-z0-9_-]{11}') then 'https://youtu.be/' || t.video_id else t.video_id end as link"

// pageFlags are those of everything that has hits.
type pageFlags struct {
	pages int
	where []string
	sort  string
	again bool
	yes   bool
}

// add offers the flags, with examples of filters and of an order; without the latter the
// service has none to choose.
func (f *pageFlags) add(c *cobra.Command, of, where, sort string) {
	flags := c.Flags()
	flags.IntVar(&f.pages, "pages", 1, "pages of 40 "+of+" to buy at most")
	flags.StringArrayVar(&f.where, "where", nil, "a filter as in the job file: "+where+"; repeatable")
	flags.BoolVar(&f.yes, "yes", false, "do not ask, whatever it may cost (budget.confirm_over)")
	if sort != "" {
		flags.StringVar(&f.sort, "sort", "", fmt.Sprintf("the order, such as %q", sort))
	}
}

func (f *pageFlags) addAgain(c *cobra.Command) {
	c.Flags().BoolVar(&f.again, "again", false, "buy also the pages that were bought within the last six hours")
}

// Examples of filters and orders.
const (
	filtersOfVideos   = "z_score=2.., language=[en, de], use=breakout"
	filtersOfChannels = "subscribers=..50000, language=[en, de]"
	orderOfVideos     = "z_score desc"
	orderOfChannels   = "recency desc"
)

// ask puts what the flags say into the mapping of a verb.
func (f *pageFlags) ask(into wishes) error {
	where, err := filters(f.where)
	if err != nil {
		return err
	}
	into["pages"] = f.pages
	if len(where) > 0 {
		into["where"] = where
	}
	into.set("sort", f.sort)
	return nil
}

// set leaves out what was not said.
func (w wishes) set(key, text string) {
	if text != "" {
		w[key] = text
	}
}

func (w wishes) list(key string, texts []string) {
	if len(texts) > 0 {
		w[key] = texts
	}
}

// enrichFlags ask for more about the hits.
type enrichFlags struct {
	enrich []string
	top    int
}

func (f *enrichFlags) add(c *cobra.Command, kinds string) {
	c.Flags().StringSliceVar(&f.enrich, "enrich", nil, "what to fetch for the hits: "+kinds)
	c.Flags().IntVar(&f.top, "top", 0, "fetch it for so many of the best hits only")
}

func (f *enrichFlags) ask(into wishes) {
	enrich := wishes{}
	for _, kind := range f.enrich {
		fetch := wishes{}
		if f.top != 0 {
			fetch["top"] = f.top
		}
		enrich[kind] = fetch
	}
	if len(enrich) > 0 {
		into["enrich"] = enrich
	}
}

// askOnce performs a verb that has hits, as the flags say, and prints them.
func (o *options) askOnce(ctx context.Context, verb job.Verb, what wishes, pages *pageFlags, enrich *enrichFlags) error {
	if err := pages.ask(what); err != nil {
		return err
	}
	all := wishes{string(verb): what}
	enrich.ask(all)
	show := o.hits("outliers", "video_id", fewOutliers)
	if verb == job.VerbFindChannels {
		show = o.hits("found_channels", "channel_id", fewChannels)
	}
	return o.once(ctx, request{verb: verb, job: all, again: pages.again, yes: pages.yes, show: show})
}

const kindsOfVideos = "details, comments, transcript, channel_videos, channel_shorts"

func searchCommand(o *options) *cobra.Command {
	var pages pageFlags
	var enrich enrichFlags
	var by, seed string
	c := &cobra.Command{
		Use:   "search QUERY…",
		Short: "Search once and print the hits; 2 credits a page",
		Long: `Search once, without an entry in the job file, and print the hits, the best first.
Budgets, ledger, journal and tables are those of the job file. Several queries are
one request over all of them. A page that was bought within the last six hours is
taken from the journal and costs nothing.`,
		Example: `  outlierd search "moka pot" --where z_score=2.. --sort "z_score desc"
  outlierd search "moka pot" "latte art" --pages 2 --enrich transcript --top 5 -o json`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, queries []string) error {
			search := wishes{"query": queries}
			search.set("by", by)
			search.set("seed", seed)
			return o.askOnce(c.Context(), job.VerbSearch, search, &pages, &enrich)
		},
	}
	pages.add(c, "hits", filtersOfVideos, orderOfVideos)
	pages.addAgain(c)
	enrich.add(c, kindsOfVideos)
	c.Flags().StringVar(&by, "by", "", "semantic (meaning of words) or lexical (exact words)")
	c.Flags().StringVar(&seed, "seed", "", "randomises the order of the hits")
	return c
}

func relatedCommand(o *options) *cobra.Command {
	var pages pageFlags
	var enrich enrichFlags
	var titles, channels []string
	var thumbnail, by string
	c := &cobra.Command{
		Use:   "related [VIDEO…]",
		Short: "Find once what resembles videos, titles or channels; 2 credits a page",
		Long: `Find once what resembles videos, by id or address, titles, a thumbnail or channels,
and print the hits, the best first. At least one of them is needed. An id that begins
with - comes after --, as in: outlierd related -- -abcdefghij`,
		Example: `  outlierd related dQw4w9WgXcQ --where published_at="last 90d"
  outlierd related --title "the best moka pot" --pages 2`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, videos []string) error {
			if len(videos)+len(titles)+len(channels) == 0 && thumbnail == "" {
				return usageError{errors.New("related to what? name videos, or give --title, --thumbnail or --channel")}
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
	flags.StringVar(&thumbnail, "thumbnail", "", "a video to whose thumbnail to relate, by id or address")
	flags.StringVar(&by, "by", "", "semantic (meaning of words) or lexical (exact words)")
	return c
}

func findChannelsCommand(o *options) *cobra.Command {
	var pages pageFlags
	var enrich enrichFlags
	var related []string
	var seed string
	c := &cobra.Command{
		Use:   "find-channels [QUERY…]",
		Short: "Search channels once and print them; 5 credits a page",
		Long: `Search channels once, or with --related-to find those that resemble others, and print
them. Several queries are one request over all of them.`,
		Example: `  outlierd find-channels "espresso" --sort "recency desc" --where subscribers=..50000
  outlierd find-channels --related-to UC1234567890abcdefghijkl`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, queries []string) error {
			if len(queries)+len(related) == 0 {
				return usageError{errors.New("which channels? give a query, or --related-to a channel")}
			}
			if len(queries) > 0 && len(related) > 0 {
				return usageError{errors.New("--related-to stands for a query: give one or the other")}
			}
			find := wishes{}
			find.list("query", queries)
			find.list("related_to", related)
			find.set("seed", seed)
			return o.askOnce(c.Context(), job.VerbFindChannels, find, &pages, &enrich)
		},
	}
	pages.add(c, "channels", filtersOfChannels, orderOfChannels)
	pages.addAgain(c)
	enrich.add(c, "channel_videos, channel_shorts")
	c.Flags().StringArrayVar(&related, "related-to", nil, "a channel to relate to, by id or address; repeatable")
	c.Flags().StringVar(&seed, "seed", "", "randomises the order of the channels")
	return c
}

func trendingFormatsCommand(o *options) *cobra.Command {
	var params []string
	var again, yes bool
	c := &cobra.Command{
		Use:   "trending-formats",
		Short: "Fetch and print the trending formats; 1 credit",
		Long: `Fetch the trending formats once and print them, a row for each element of the answer.
No parameters are documented: each --param is sent as it is written. An answer that was
bought within the last six hours is taken from the journal and costs nothing.`,
		Example: `  outlierd trending-formats
  outlierd trending-formats --param language=en -o json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ask, err := sentAs(params)
			if err != nil {
				return err
			}
			verb := job.VerbTrendingFormats
			return o.once(c.Context(), request{
				verb: verb, job: wishes{string(verb): ask}, again: again, yes: yes, show: o.formats,
			})
		},
	}
	c.Flags().StringArrayVar(&params, "param", nil, "a parameter to send, as name=value; repeatable")
	c.Flags().BoolVar(&again, "again", false, "buy the answer even if it was bought within the last six hours")
	c.Flags().BoolVar(&yes, "yes", false, "do not ask, whatever it may cost (budget.confirm_over)")
	return c
}

// sentAs reads name=value pairs. A name that is given twice has both values.
func sentAs(pairs []string) (wishes, error) {
	params := wishes{}
	for _, pair := range pairs {
		name, text, ok := strings.Cut(pair, "=")
		switch {
		case !ok || strings.TrimSpace(name) == "":
			return nil, usageError{fmt.Errorf("--param %s: want name=value, as in language=en", pair)}
		case strings.HasPrefix(name, "x-"): // the job file ignores such keys
			return nil, usageError{fmt.Errorf("--param %s: a name cannot begin with x-", pair)}
		}
		before, _ := params[name].([]string)
		params[name] = append(before, text)
	}
	return params, nil
}

// formats shows the answer that a run bought or took from the journal: the newest one to
// its request.
func (o *options) formats(s showing) (string, error) {
	steps, err := s.Store.Steps(s.row.ID)
	if err != nil {
		return "", err
	}
	response := int64(0) // the id of no answer
	for _, step := range steps {
		answer, err := s.Store.Answered(step.Op, step.Params, s.row.Started.Add(-s.spec.ReuseFor))
		if err != nil {
			return "", err
		}
		if answer != nil {
			response = answer.ID
		}
	}
	return fmt.Sprintf("select %s from trending_formats as t where t._response_id = %d order by t.position",
		o.columns("t.position, t.value"), response), nil
}
