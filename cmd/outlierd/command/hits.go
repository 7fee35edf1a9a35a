package command

import (
	"context"
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
// A flag of a one-off command is a key of its job: what is typed is read like the value of the key in the job file, and
// a mistake is named by the flag.

// A keyFlag is the flag for a key below a verb. add adds what was typed to the keys of a request. For completion,
// values returns what can be written for an operation.
type keyFlag struct {
	name, key, usage string
	add              func(o *oneOff, key, flag, text string) error
	values           func(outlier.Operation) []string
}

var keyFlags = []keyFlag{
	{"by", "by", "semantic (meaning of words) or lexical (exact words)", setText, fixed("semantic", "lexical")},
	{"channel", "related_channel_id", "a channel to relate to, by id or address; repeatable", addText, nil},
	{"max-age", "refresh_after", "request again if the stored answer is older, such as 1h", setText, nil},
	{"mode", "mode", "fast (up to 1000 outliers, 50 credits) or standard (up to 2500, 100 credits)", setText,
		fixed("fast", "standard")},
	{"param", "", "a parameter to send, as name=value; repeatable", addParameter, nil},
	{"pages", "pages", "buy at most `N` pages of 40 rows", setNumber, nil},
	{"related-to", "related_to", "a channel to relate to, by id or address; repeatable", addText, nil},
	{"seed", "seed", "seed of a random order", setText, nil},
	{"sort", "sort", "the order as in the job file, such as \"recency desc\"", setText, sortOrders},
	{"thumbnail", "thumbnail_video_id", "a video with a similar thumbnail, by id or address", setText, nil},
	{"title", "title", "a title to relate to; repeatable", addText, nil},
	{"where", "where", "a filter `KEY=VALUE` as in the job file, such as language=[en, de]; repeatable", addFilter,
		filterKeys},
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

// addFlags adds the flags with these names, of which some are about the reading of a scan.
func (o *oneOff) addFlags(c *cobra.Command, names []string) {
	for _, f := range keyFlags {
		key := f.key
		if slices.Contains(names, "read."+f.name) {
			key = "read." + key
		} else if !slices.Contains(names, f.name) {
			continue
		}
		usage := f.usage
		if preset := o.keys[key]; preset != nil {
			usage += fmt.Sprintf(" (default %s)", preset[0])
		}
		c.Flags().Func(f.name, usage, func(text string) error { return f.add(o, key, "--"+f.name, text) })
		if f.values != nil {
			completeFlag(c, f.name, f.values(o.op)...)
		}
	}
}

// set gives a key below the verb texts, in place of those that it has.
func (o *oneOff) set(key, typedAs string, texts ...string) {
	o.keys[key], o.names[key] = texts, typedAs
}

func setText(o *oneOff, key, flag, text string) error {
	o.set(key, flag, text)
	return nil
}

func setNumber(o *oneOff, key, flag, text string) error {
	if _, err := strconv.Atoi(text); err != nil {
		return errors.New("it must be a number")
	}
	return setText(o, key, flag, text)
}

// addText adds one of several texts.
func addText(o *oneOff, key, flag, text string) error {
	o.set(key, flag, append(o.keys[key], text)...)
	return nil
}

// addParameter adds a parameter of an operation whose parameters are not documented: each is a key.
func addParameter(o *oneOff, _, flag, pair string) error {
	name, text, ok := strings.Cut(pair, "=")
	if !ok || strings.TrimSpace(name) == "" {
		return errors.New("must be name=value, as in language=en")
	}
	return addText(o, name, flag+" "+name, text)
}

// addFilter adds a key=value pair in the syntax of a job's where: a list is [en, de] or a repeated key, a text may be
// quoted, and ~ removes a filter that `use` added.
func addFilter(o *oneOff, key, flag, pair string) error {
	name, text, _ := strings.Cut(pair, "=")
	name, text = strings.TrimSpace(name), strings.TrimSpace(text)
	if name == "" || text == "" || strings.Contains(name, ".") {
		return errors.New("want key=value, as in z_score=2.. or language=[en, de]")
	}
	texts, key := []string{text}, key+"."+name
	isList := text[0] == '[' && job.TakesList(o.verb, key)
	if isList || text[0] == '"' || text[0] == '\'' {
		written := yamltree.New(flag, []byte(text), slices.Clone[[]string]).Parse()
		switch {
		case isList && (written == nil || written.Kind != yamltree.List):
			return errors.New("the list must be like [en, de]; write a text with [ ] , or quotes between quotes")
		case isList:
			texts = nil
			for _, member := range written.Items {
				texts = append(texts, member.Text)
			}
		case written != nil && written.Kind == yamltree.Text:
			texts[0] = written.Text
		}
	}
	o.set(key, flag+" "+name, append(o.keys[key], texts...)...)
	return nil
}

// againUsage is that of --again.
const againUsage = "buy again what was bought within the last six hours"

// A shower returns the query over the published file for the result of a request.
type shower func(context.Context, showing) (string, error)

// A oneOff is a command that makes one request without a job in the file: what is typed are the keys of its verb.
type oneOff struct {
	verb   job.Verb
	op     outlier.Operation            // whose filters and orders its flags have
	keys   job.Keys                     // below the verb: presets, and what is typed
	arg    string                       // the key of the arguments; "" if parse keeps them
	parse  func(string) (string, error) // reads an argument; nil for any text
	flags  []string                     // of [keyFlags]; those of a scan's reading as read.pages
	again  string                       // the usage of --again; "" if nothing is bought
	enrich []string                     // what can be fetched for the hits
	check  func(*oneOff) error          // of what was typed; nil for none
	before func(context.Context, showing) error
	show   shower

	// What is typed, beside the keys:
	names   map[string]string // what mistakes call the keys
	afresh  bool
	fetches []string
	top     int
}

// addTo completes a command that has its texts.
func (o *oneOff) addTo(c *cobra.Command, g *globals) *cobra.Command {
	c.RunE = func(c *cobra.Command, args []string) error {
		err := o.readArguments(args)
		if err == nil && o.check != nil {
			err = o.check(o)
		}
		if err != nil {
			return usageError{err}
		}
		return o.run(c.Context(), g)
	}
	o.names = map[string]string{}
	o.addFlags(c, o.flags)
	if o.again != "" {
		c.Flags().BoolVar(&o.afresh, "again", false, o.again)
		g.spending.addFlags(c)
	}
	if len(o.enrich) > 0 {
		c.Flags().StringSliceVar(&o.fetches, "enrich", nil, "what to fetch for the hits: "+strings.Join(o.enrich, ", "))
		completeFlag(c, "enrich", o.enrich...)
		c.Flags().IntVar(&o.top, "top", 0, "fetch for the N best hits only")
	}
	return c
}

// readArguments adds the arguments to the keys, each of them once.
func (o *oneOff) readArguments(args []string) (err error) {
	var all []string
	for _, arg := range args {
		if o.parse != nil {
			if arg, err = o.parse(arg); err != nil {
				return err
			}
		}
		if o.parse == nil || !slices.Contains(all, arg) {
			all = append(all, arg)
		}
	}
	if len(all) > 0 && o.arg != "" {
		o.set(o.arg, strings.ToUpper(strings.TrimSuffix(o.arg, "_id")), all...)
	}
	return nil
}

// request returns the request for what was typed.
func (o *oneOff) request() job.OneOff {
	once := onceOf(o.verb, o.keys)
	for key, name := range o.names {
		once.Names[string(o.verb)+"."+key] = name
	}
	for _, kind := range o.fetches {
		once.Keys["enrich."+kind], once.Names["enrich."+kind] = nil, "--enrich "+kind
		if o.top != 0 {
			once.Keys["enrich."+kind+".top"], once.Names["enrich."+kind+".top"] = []string{strconv.Itoa(o.top)}, "--top"
		}
	}
	return once
}

// onceOf returns the request with keys below a verb.
func onceOf(verb job.Verb, keys job.Keys) job.OneOff {
	once := job.OneOff{Keys: job.Keys{string(verb): nil}, Names: map[string]string{}}
	for key, texts := range keys {
		once.Keys[string(verb)+"."+key] = texts
	}
	return once
}

// What can be fetched for hits that are channels, and for videos.
var (
	ofChannel = []string{"channel_videos", "channel_shorts"}
	ofVideo   = append([]string{"details", "comments", "transcript"}, ofChannel...)
)

// showHits returns the query for the hits of a run, best first, with their current data. It includes pages
// that came from the journal, whose rows belong to other runs.
func showHits(out *printer, v view) shower {
	return func(_ context.Context, s showing) (string, error) {
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

const knownLong = `Stored answers are printed while they are fresh: channels for 7 days, comments for 2 days,
details for 1 day, transcripts permanently. --max-age requests older ones again, and what
the service did not have. No credits are spent. An id that begins with - comes after --.`

// showFacts returns the query for the current data of the ids, and reports those that the service does not
// have.
func showFacts(g *globals, v view) shower {
	return func(ctx context.Context, s showing) (string, error) {
		work, err := s.spec.Resolve(job.Inputs{Now: time.Now(), IDs: s.program.idsOf(ctx)})
		if err != nil {
			return "", err
		}
		err = query.Missing(ctx, published(s.program.Engine.Config), work.IDs, func(operation, id, at any) {
			if slices.ContainsFunc(s.spec.Fetch, func(c job.Call) bool { return string(c.Op) == operation }) {
				fmt.Fprintf(g.world.err, "the service has no %s of %s (checked %s); it is asked again after 30 days, "+
					"or now with --max-age 1m\n", operation, term.Plain(term.Raw(id)), term.Raw(second(at)))
			}
		})
		return v.rowsOf(g.out, work.IDs), err
	}
}

func channelCommand(g *globals) *cobra.Command {
	uploads := false
	c := (&oneOff{
		verb: job.VerbChannels, arg: "id", parse: outlier.ParseChannel, flags: []string{"max-age"},
		keys: job.Keys{"fetch": ofChannel, "refresh_after": {"7d"}},
		show: func(ctx context.Context, s showing) (string, error) {
			if uploads {
				return showFacts(g, ofUploads)(ctx, s)
			}
			return showFacts(g, ofStatistics)(ctx, s)
		},
	}).addTo(&cobra.Command{
		Use: "channel CHANNEL…", Short: "Fetch and print a channel's statistics or uploads; free",
		Long: `Fetch a channel's sampled videos and shorts, by id, address, handle or one of its videos,
and print its statistics for both, or with --uploads the videos and shorts. The service knows
channels only by id: the id comes from your tables, from the details of the video, which are
free, or for a handle from a search after confirmation.` + "\n\n" + knownLong,
	}, g)
	c.Flags().BoolVar(&uploads, "uploads", false, "print the sampled videos and shorts")
	g.spending.addFlags(c) // for unknown handles
	return c
}

func videoCommand(g *globals) *cobra.Command {
	return videoData(g, "video", "details", "the description and current numbers", "details", "1d", ofDetails)
}

func commentsCommand(g *globals) *cobra.Command {
	return videoData(g, "comments", "last comments", "the last 100 comments", "comments", "2d", ofComments)
}

func transcriptCommand(g *globals) *cobra.Command {
	return videoData(g, "transcript", "transcript", "the transcript, line by line", "transcript", "", ofTranscript)
}

// videoData returns a command that fetches a kind of data about videos. It prints stored answers that are not older
// than fresh; "" for any.
func videoData(g *globals, name, what, does, kind, fresh string, v view) *cobra.Command {
	keys := job.Keys{"fetch": {kind}}
	if fresh != "" {
		keys["refresh_after"] = []string{fresh}
	}
	return (&oneOff{
		verb: job.VerbVideos, arg: "id", parse: outlier.ParseVideoID, flags: []string{"max-age"}, keys: keys,
		show: showFacts(g, v),
	}).addTo(&cobra.Command{
		Use: name + " VIDEO…", Short: fmt.Sprintf("Fetch and print a video's %s; free", what),
		Long: fmt.Sprintf("Fetch and print, for videos by id or address, %s.\n\n%s", does, knownLong),
	}, g)
}
