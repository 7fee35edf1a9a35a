package main

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"outlierd/cmd/outlierd/term"

	"github.com/spf13/cobra"

	"outlierd/sync/job"
)

// # A command line that fits nothing
//
// What is wrong with it is said in the words of the help, and not in those of the library
// that reads command lines. What a command takes stands in its Use.

// markUsage goes over the whole tree of commands.
func markUsage(c *cobra.Command) {
	c.Args = usage(c.Args)
	for _, sub := range c.Commands() {
		markUsage(sub)
	}
}

// usage makes of what a check has against the arguments of a command a mistake in usage.
func usage(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if check(c, args) == nil {
			return nil
		}
		return usageError{fmt.Errorf("%s; see '%s --help'", unfitting(c, args), c.CommandPath())}
	}
}

// unfitting says what is wrong with the arguments of a command.
func unfitting(c *cobra.Command, args []string) string {
	_, wanted, _ := strings.Cut(c.Use, " ")
	switch most := len(strings.Fields(wanted)); {
	case most == 0 && c.HasSubCommands():
		return unknownCommand(c, args[0])
	case most == 0:
		return fmt.Sprintf("'%s' takes nothing but flags, and was given %q", c.CommandPath(), args[0])
	case len(args) == 0:
		return fmt.Sprintf("'%s' needs %s", c.CommandPath(), wanted)
	case len(args) > most:
		return fmt.Sprintf("'%s' takes %s, and was given %s; words that belong together stand in quotes", c.CommandPath(), wanted, term.Count(len(args), "argument"))
	}
	return fmt.Sprintf("'%s' takes %s, and was given %s", c.CommandPath(), wanted, term.Count(len(args), "argument"))
}

// unknownCommand names those below c that may have been meant.
func unknownCommand(c *cobra.Command, typed string) string {
	said := fmt.Sprintf("'%s' has no command %q", c.CommandPath(), typed)
	known, begun := commandsBelow(c), []string(nil)
	for _, name := range known {
		if typed != "" && strings.HasPrefix(name, strings.ToLower(typed)) {
			begun = append(begun, fmt.Sprintf("'%s %s'", c.CommandPath(), name))
		}
	}
	if meant := job.Nearest(strings.ToLower(typed), known); meant != "" && len(begun) == 0 {
		begun = []string{fmt.Sprintf("'%s %s'", c.CommandPath(), meant)}
	}
	if len(begun) > 0 {
		said += " (did you mean " + strings.Join(begun, " or ") + "?)"
	}
	return said
}

// refuseUnknownTopics makes 'help' of a command that does not exist an error.
func refuseUnknownTopics(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	help, _, _ := root.Find([]string{"help"})
	help.Args = func(_ *cobra.Command, args []string) error {
		if c, unknown, _ := root.Find(args); len(unknown) > 0 {
			return usageError{errors.New(unknownCommand(c, unknown[0]))}
		}
		return nil
	}
}

// commandsBelow are the names of what stands below c.
func commandsBelow(c *cobra.Command) (names []string) {
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return names
}

// didYouMean ends a message with the word that was meant, if one is near.
func didYouMean(typed string, known []string) string {
	if meant := job.Nearest(typed, known); meant != "" {
		return "; did you mean " + meant + "?"
	}
	return ""
}

// noJob refuses the name of a job that the file does not have; why says so in full.
func noJob(config *job.Config, name, why string) error {
	var known []string
	for i := range config.Jobs {
		known = append(known, config.Jobs[i].Name)
	}
	return usageError{fmt.Errorf("%s has no job %q%s%s", config.Path, name, why, didYouMean(name, known))}
}

// flagOf finds the flag in what the library says of a value: its errors have no name
// that could be used here.
var flagOf = regexp.MustCompile(`for "(?:-\w, )?(--[\w-]+)" flag: `)

// flagsOf finds the names in the library's list of flags.
var flagsOf = regexp.MustCompile(`(?m)^ +(?:-\w, |    )--([\w-]+)`)

// badFlag says what is wrong with a flag.
func badFlag(c *cobra.Command, err error) error {
	said := err.Error()
	cause, number := errors.AsType[*strconv.NumError](err)
	if name := flagOf.FindStringSubmatch(said); name != nil && number {
		said = fmt.Sprintf("%s %s: want %s", name[1], cause.Num, wantedBy(cause))
	} else if name, bare := strings.CutPrefix(said, "flag needs an argument: "); bare {
		said = name + " needs a value"
	} else if name, unknown := strings.CutPrefix(said, "unknown flag: --"); unknown {
		var known []string
		for _, flag := range flagsOf.FindAllStringSubmatch(c.Flags().FlagUsages(), -1) {
			known = append(known, flag[1])
		}
		if meant := job.Nearest(name, known); meant != "" {
			said += "; did you mean --" + meant + "?"
		}
	}
	return usageError{fmt.Errorf("%s; see '%s --help'", said, c.CommandPath())}
}

// wantedBy is what could not be read as what it should be.
func wantedBy(cause *strconv.NumError) string {
	switch {
	case errors.Is(cause, strconv.ErrRange):
		return "a smaller number"
	case cause.Func == "ParseBool":
		return "true or false, or nothing"
	case cause.Func == "ParseUint":
		return "a whole number that is not negative"
	}
	return "a whole number"
}
