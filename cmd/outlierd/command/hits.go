package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"outlierd/sinks/duckdb/query"
	"outlierd/sync/job"
	"outlierd/sync/runs"
	"outlierd/sync/yamltree"
)

// Columns shown to people.
const (
	fewOutliers = "t.title, t.view_count, t.z_score, " + query.VideoLink +
		", t.channel_title, t.published_at, t.average_views_ratio"
	fewChannels = "t.channel_id, t.title, t.handle, t.subscribers, t.average_views, t.language"
)

// pageFlags are the flags of all commands that buy pages.
type pageFlags struct {
	pages int
	where []string
	sort  string
	again bool
}

// add adds the flags, with examples of filters and of a sort order. Without the latter there is no
// --sort.
func (f *pageFlags) add(c *cobra.Command, of, where, sort string) {
	flags := c.Flags()
	flags.IntVar(&f.pages, "pages", 1, "pages of 40 "+of+" to buy at most")
	flags.StringArrayVar(&f.where, "where", nil, "a filter as in the job file: "+where+"; repeatable")
	if sort != "" {
		flags.StringVar(&f.sort, "sort", "", fmt.Sprintf("the order, such as %q", sort))
	}
}

func (f *pageFlags) addAgain(c *cobra.Command) {
	c.Flags().BoolVar(&f.again, "again", false, "buy pages again that were bought within the last six hours")
}

// Examples of filters and orders.
const (
	filtersOfVideos   = "z_score=2.., language=[en, de], use=breakout"
	filtersOfChannels = "subscribers=..50000, language=[en, de]"
	orderOfVideos     = "z_score desc"
	orderOfChannels   = "recency desc"
)

// ask adds the values of the flags to the mapping of a verb.
func (f *pageFlags) ask(into wishes) error {
	where, err := parseFilters(f.where)
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

// set skips empty values.
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

// enrichFlags select data to fetch for the hits.
type enrichFlags struct {
	enrich []string
	top    int
}

func (f *enrichFlags) add(c *cobra.Command, kinds string) {
	c.Flags().StringSliceVar(&f.enrich, "enrich", nil, "what to fetch for the hits: "+kinds)
	c.Flags().IntVar(&f.top, "top", 0, "fetch for the N best hits only")
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

// askOnce runs a verb that finds hits, and prints what show returns the query for.
func askOnce(ctx context.Context, g *globals, verb job.Verb, what wishes, pages *pageFlags, enrich *enrichFlags,
	show func(showing) (string, error)) error {
	if err := pages.ask(what); err != nil {
		return err
	}
	all := wishes{string(verb): what}
	enrich.ask(all)
	return runOnce(ctx, g, request{verb: verb, job: all, again: pages.again, show: show})
}

const kindsOfVideos = "details, comments, transcript, channel_videos, channel_shorts"

// hits returns the query for the hits of a run, best first, with their current data. It includes pages
// that came from the journal, whose rows belong to other runs.
func showHits(out *printer, table, key, few string) func(showing) (string, error) {
	return func(s showing) (string, error) {
		var ids []string
		hits, err := s.program.Engine.Store.Hits.Best(s.row.ID,
			runs.Choice{All: true, Desc: !s.spec.EnrichSort.Ascending})
		for _, hit := range hits {
			ids = append(ids, hit.VideoID)
		}
		return query.RowsOf(table, key, out.columns(few), "", ids), err
	}
}

// parseFilters parses key=value pairs in the syntax of a job's where: a list is [en, de] or a repeated key,
// and ~ removes a filter that `use` added.
func parseFilters(pairs []string) (wishes, error) {
	where := wishes{}
	for _, pair := range pairs {
		key, text, ok := strings.Cut(pair, "=")
		key, text = strings.TrimSpace(key), strings.TrimSpace(text)
		if !ok || key == "" || text == "" {
			return nil, usageError{fmt.Errorf("--where %s: want key=value, "+
				"as in z_score=2.. or language=[en, de]", pair)}
		}
		value, err := parseValue(text)
		if err != nil {
			return nil, usageError{fmt.Errorf("--where %s: %w", pair, err)}
		}
		if before, again := where[key]; again {
			value = slices.Concat(members(before), members(value))
		}
		where[key] = value
	}
	return where, nil
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
