package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"outlierd/cmd/outlierd/term"
	"outlierd/outlier"
	"outlierd/sinks/duckdb/query"
	"outlierd/sync/job"
	"outlierd/sync/runs"
	"outlierd/sync/yamltree"
)

var (
	ofOutliers = view{"outliers", "video_id", "t.title, t.view_count, t.z_score, " + query.VideoLink +
		", t.channel_title, t.published_at, t.average_views_ratio", ""}
	ofFound = view{"found_channels", "channel_id",
		"t.channel_id, t.title, t.handle, t.subscribers, t.average_views, t.language", ""}
)

// # Flags of one-off requests
//
// A flag of a one-off command is a key of its job: what is typed becomes the value of the key, is checked like that of
// the job file, and a mistake is named by the flag.

// A keyFlag is the flag for a key: set puts what was typed into a mapping. For completion, values returns what can be
// written for an operation.
type keyFlag struct {
	name, key, usage string
	set              func(into wishes, key, text string) error
	values           func(outlier.Operation) []string
}

var keyFlags = []keyFlag{
	{"by", "by", "semantic (meaning of words) or lexical (exact words)", setText, fixed("semantic", "lexical")},
	{"channel", "related_channel_id", "a channel to relate to, by id or address; repeatable", addText, nil},
	{"max-age", "refresh_after", "request again if the stored answer is older, such as 1h", setText, nil},
	{"mode", "mode", "fast (up to 1000 outliers, 50 credits) or standard (up to 2500, 100 credits)", setText,
		fixed("fast", "standard")},
	{"pages", "pages", "buy at most `N` pages of 40 rows", setNumber, nil},
	{"related-to", "related_to", "a channel to relate to, by id or address; repeatable", addText, nil},
	{"seed", "seed", "seed of a random order", setText, nil},
	{"sort", "sort", "the order as in the job file, such as \"recency desc\"", setText, sortOrders},
	{"thumbnail", "thumbnail_video_id", "a video with a similar thumbnail, by id or address", setText, nil},
	{"title", "title", "a title to relate to; repeatable", addText, nil},
	{"where", "where", "a filter `KEY=VALUE` as in the job file, such as language=[en, de]; repeatable", addFilter, filterKeys},
}

func fixed(words ...string) func(outlier.Operation) []string {
	return func(outlier.Operation) []string { return words }
}

func sortOrders(op outlier.Operation) (all []string) {
	for _, sort := range job.Sorts(op) {
		all = append(all, sort+" desc", sort+" asc")
	}
	return all
}

func filterKeys(op outlier.Operation) (all []string) {
	for _, key := range job.Filters(op) {
		all = append(all, key+"=")
	}
	return all
}

// addFlags adds the flags with these names to a command for an operation.
func (w wishes) addFlags(c *cobra.Command, op outlier.Operation, names ...string) {
	for _, f := range keyFlags {
		if !slices.Contains(names, f.name) {
			continue
		}
		usage := f.usage
		if preset := w[f.key]; preset != nil {
			usage += fmt.Sprintf(" (default %v)", preset)
		}
		c.Flags().Func(f.name, usage, func(text string) error { return f.set(w, f.key, text) })
		if f.values != nil {
			completeFlag(c, f.name, f.values(op)...)
		}
	}
}

func setText(into wishes, key, text string) error {
	into[key] = text
	return nil
}

func setNumber(into wishes, key, text string) error {
	n, err := strconv.Atoi(text)
	if err != nil {
		return errors.New("it must be a number")
	}
	into[key] = n
	return nil
}

// addText adds one of several texts.
func addText(into wishes, key, text string) error {
	before, _ := into[key].([]string)
	into[key] = append(before, text)
	return nil
}

// addFilter adds a key=value pair in the syntax of a job's where: a list is [en, de] or a repeated key, and ~ removes a
// filter that `use` added.
func addFilter(into wishes, key, pair string) error {
	where, _ := into[key].(wishes)
	if where == nil {
		where = wishes{}
	}
	name, text, ok := strings.Cut(pair, "=")
	name, text = strings.TrimSpace(name), strings.TrimSpace(text)
	if !ok || name == "" || text == "" {
		return errors.New("want key=value, as in z_score=2.. or language=[en, de]")
	}
	value, err := parseValue(text)
	if err != nil {
		return err
	}
	if before, again := where[name]; again {
		value = slices.Concat(members(before), members(value))
	}
	where[name], into[key] = value, where
	return nil
}

// parseValue converts a text of the command line to a YAML value. A list is read as in the job file.
func parseValue(text string) (any, error) {
	switch {
	case strings.HasPrefix(text, "["):
		list := yamltree.New("--where", []byte(text), slices.Clone[[]string]).Parse()
		if list == nil || list.Kind != yamltree.List {
			return nil, errors.New("the list must be like [en, de]; write a text with [ ] , or quotes between quotes")
		}
		all := []any{}
		for _, member := range list.Items {
			all = append(all, member.Text)
		}
		return all, nil
	case text == "true", text == "false":
		return text == "true", nil
	case text == "~":
		return nil, nil
	}
	if n, err := strconv.ParseUint(text, 10, 63); err == nil && strconv.FormatUint(n, 10) == text { // not 007, which JSON refuses
		return json.Number(text), nil // the parser decides what kind of number it is
	}
	return text, nil
}

func members(v any) []any {
	if all, ok := v.([]any); ok {
		return all
	}
	return []any{v}
}

// addAgain adds --again to a command that buys pages.
func addAgain(c *cobra.Command, again *bool) {
	c.Flags().BoolVar(again, "again", false, "buy again what was bought within the last six hours")
}

// A shower returns the query over the published file for the result of a request.
type shower func(showing) (string, error)

// hitsCommand completes a command that buys pages of hits and can fetch more about them. ask adds the arguments to the
// body of the verb, and returns what to print.
func hitsCommand(g *globals, c *cobra.Command, verb job.Verb, body wishes, ask func(args []string) (shower, error)) *cobra.Command {
	var again bool
	var enrich []string
	var top int
	op, kinds := outlier.OpSearch, []string{"details", "comments", "transcript", "channel_videos", "channel_shorts"}
	switch verb {
	case job.VerbRelated:
		op = outlier.OpRelated
	case job.VerbFindChannels:
		op, kinds = outlier.OpFindChannels, kinds[3:]
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		show, err := ask(args)
		if err != nil {
			return usageError{err}
		}
		all := wishes{string(verb): body}
		if fetches := fetchesOf(enrich, top); len(fetches) > 0 {
			all["enrich"] = fetches
		}
		return runOnce(c.Context(), g, request{verb: verb, job: all, again: again, show: show})
	}
	body["pages"] = 1
	body.addFlags(c, op, "pages", "where")
	addAgain(c, &again)
	g.spending.addFlags(c)
	c.Flags().StringSliceVar(&enrich, "enrich", nil, "what to fetch for the hits: "+strings.Join(kinds, ", "))
	completeFlag(c, "enrich", kinds...)
	c.Flags().IntVar(&top, "top", 0, "fetch for the N best hits only")
	return c
}

// fetchesOf returns the mapping of enrich; top is 0 for all hits.
func fetchesOf(kinds []string, top int) wishes {
	all := wishes{}
	for _, kind := range kinds {
		fetch := wishes{}
		if top != 0 {
			fetch["top"] = top
		}
		all[kind] = fetch
	}
	return all
}

// showHits returns the query for the hits of a run, best first, with their current data. It includes pages
// that came from the journal, whose rows belong to other runs.
func showHits(out *printer, v view) shower {
	return func(s showing) (string, error) {
		var ids []string
		hits, err := s.program.Engine.Store.Hits.Best(s.row.ID,
			runs.Choice{All: true, Desc: !s.spec.Ascending})
		for _, hit := range hits {
			ids = append(ids, hit.VideoID)
		}
		return v.rowsOf(out, ids), err
	}
}

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
