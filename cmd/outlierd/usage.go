package main

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
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
		return fmt.Sprintf("'%s' takes %s, and was given %s; words that belong together stand in quotes", c.CommandPath(), wanted, count(len(args), "argument"))
	}
	return fmt.Sprintf("'%s' takes %s, and was given %s", c.CommandPath(), wanted, count(len(args), "argument"))
}

// unknownCommand names those below c that may have been meant.
func unknownCommand(c *cobra.Command, typed string) string {
	said := fmt.Sprintf("'%s' has no command %q", c.CommandPath(), typed)
	c.SuggestionsMinimumDistance = min(2, (len(typed)+1)/3) // letters may be wrong
	var meant []string
	for _, name := range c.SuggestionsFor(typed) {
		meant = append(meant, fmt.Sprintf("'%s %s'", c.CommandPath(), name))
	}
	if len(meant) > 0 {
		said += " (did you mean " + strings.Join(meant, " or ") + "?)"
	}
	return said
}

// flagOf finds the flag in what the library says of a value: its errors have no name
// that could be used here.
var flagOf = regexp.MustCompile(`for "(?:-\w, )?(--[\w-]+)" flag: `)

// badFlag says what is wrong with a flag.
func badFlag(c *cobra.Command, err error) error {
	said := err.Error()
	cause, number := errors.AsType[*strconv.NumError](err)
	if name := flagOf.FindStringSubmatch(said); name != nil && number {
		said = fmt.Sprintf("%s %s: want %s", name[1], cause.Num, wantedBy(cause))
	} else if name, bare := strings.CutPrefix(said, "flag needs an argument: "); bare {
		said = name + " needs a value"
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
