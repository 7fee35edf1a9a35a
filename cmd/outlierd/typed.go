package main

import (
	"errors"
	"strings"

	"outlierd/sync/job"
)

// # What was typed
//
// A one-off command describes a job by its flags and arguments, and is checked as the
// file is. What is wrong with it is told of what was typed: nobody typed
// "search.where.zscore", and there is no line to look at.

// typedAs has the keys of a job and what is typed for them.
var typedAs = map[string]string{
	"pages": "--pages", "sort": "--sort", "by": "--by", "seed": "--seed", "mode": "--mode", "where": "--where", "enrich": "--enrich",
	"title": "--title", "related_channel_id": "--channel", "thumbnail_video_id": "--thumbnail", "related_to": "--related-to",
	"top": "--top", "refresh_after": "--max-age", "query": "QUERY", "video_id": "VIDEO", "channel_id": "CHANNEL", "id": "ID",
}

// typed tells the mistakes of a one-off job of the given verb by flags and arguments.
// Those of the job file, which such a job can bring to light, keep their places.
func typed(verb job.Verb, file string, err error) error {
	mistakes, ok := errors.AsType[job.Mistakes](err)
	if !ok {
		return err
	}
	var lines []string
	for _, m := range mistakes {
		line := m.String()
		if m.File != file {
			path, what, _ := strings.Cut(m.Message, ": ")
			line = asTyped(verb, path) + ": " + what
			if m.Hint != "" {
				line += "; " + m.Hint
			}
		}
		lines = append(lines, line)
	}
	return errors.New(strings.Join(lines, "\n"))
}

// asTyped is what was typed for the key at a path: "--where z_score" for
// search.where.z_score, "--top" for enrich.details.top.
func asTyped(verb job.Verb, path string) string {
	path = strings.TrimPrefix(path, string(verb)+".")
	path = strings.TrimPrefix(path, "read.")
	key, below, _ := strings.Cut(path, ".")
	if key == "enrich" && strings.HasSuffix(below, ".top") {
		key, below = "top", ""
	}
	name, known := typedAs[key]
	if !known {
		return path
	}
	return strings.TrimSpace(name + " " + below)
}
