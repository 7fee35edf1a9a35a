package command

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"outlierd/sync/job"
	"outlierd/sync/yamltree"
)

// prepareCommand checks the arguments of a command and of those below it, and notes when one starts: what ends it before
// that is an invalid command line.
func prepareCommand(c *cobra.Command, started *bool) {
	if c.Args == nil {
		c.Args = checkArguments
	}
	if start := c.RunE; start != nil {
		c.RunE = func(c *cobra.Command, args []string) error {
			*started = true
			return start(c, args)
		}
	}
	for _, sub := range c.Commands() {
		prepareCommand(sub, started)
	}
}

// checkArguments returns an error unless there are as many arguments as the command's line of usage names before its
// flags: NAME is one, [NAME] at most one, and … any number more.
func checkArguments(c *cobra.Command, args []string) error {
	least, most := 0, 0
	for _, word := range strings.Fields(c.Use)[1:] {
		if strings.HasPrefix(word, "-") {
			break
		}
		if most++; !strings.HasPrefix(word, "[") {
			least++
		}
		if strings.Contains(word, "…") {
			most = math.MaxInt
		}
	}
	switch {
	case len(args) < least:
		return fmt.Errorf("an argument is missing: write '%s'", c.UseLine())
	case len(args) <= most:
		return nil
	case !c.HasSubCommands():
		return fmt.Errorf("unexpected argument %q: write '%s'", args[most], c.UseLine())
	}
	meant := ""
	c.SuggestionsMinimumDistance = 2
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		meant = fmt.Sprintf(" (did you mean %s?)", strings.Join(near, " or "))
	}
	return fmt.Errorf("unknown command %q for %q%s", args[0], c.CommandPath(), meant)
}

// didYouMean returns the end of a message that suggests the most similar known word; "" if there is none.
func didYouMean(typed string, known []string) string {
	if meant := yamltree.Nearest(typed, known); meant != "" {
		return "; did you mean " + meant + "?"
	}
	return ""
}

// expandTags replaces each @tag among names by the jobs that have the tag, except those that refuses returns an error
// for, unless it does for all of them. Each job is named once.
func expandTags(config *job.Config, names []string, refuses func(*job.Spec) error) (all []string, err error) {
	for _, name := range names {
		tag, isTag := strings.CutPrefix(name, "@")
		found, refused := []string{name}, error(nil)
		for i := range config.Jobs {
			spec := &config.Jobs[i]
			if !isTag || !slices.Contains(spec.Tags, tag) {
				continue
			}
			if err := refuses(spec); err != nil {
				refused = err
				continue
			}
			found = append(found, spec.Name)
		}
		known := config.Tags()
		switch {
		case !isTag:
		case len(found) > 1:
			found = found[1:]
		case refused != nil:
			return nil, fmt.Errorf("%s: %w", name, refused)
		case len(known) == 0:
			return nil, usageError{fmt.Errorf("%s has no tag %q: no job has tags", config.Path, tag)}
		default:
			return nil, usageError{fmt.Errorf("%s has no tag %q; the tags are @%s", config.Path, tag, strings.Join(known, ", @"))}
		}
		for _, name := range found {
			if !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	return all, nil
}

// anyJob makes [expandTags] take all jobs with a tag.
func anyJob(*job.Spec) error { return nil }

// noJob returns the error for an unknown job name; why explains it.
func noJob(config *job.Config, name, why string) error {
	var known []string
	renamed := ""
	for i := range config.Jobs {
		spec := &config.Jobs[i]
		known = append(known, spec.Name)
		if name != "" && spec.Was == name {
			renamed = "; it is named " + spec.Name + " now"
		}
	}
	hint := cmp.Or(renamed, didYouMean(name, known))
	return usageError{fmt.Errorf("%s has no job %q%s%s", config.Path, name, why, hint)}
}
