package command

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"outlierd/cmd/outlierd/term"
	"outlierd/sync/job"
	"outlierd/sync/yamltree"
)

// # Invalid command lines
//
// Errors use the words of the help instead of the messages of the command-line library. The arguments
// of a command are those in its Use.

// markUsage applies usage to all commands.
func markUsage(c *cobra.Command) {
	c.Args = usage(c.Args)
	for _, sub := range c.Commands() {
		markUsage(sub)
	}
}

// usage turns the error of an argument check into a usage error.
func usage(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if check(c, args) == nil {
			return nil
		}
		return usageError{fmt.Errorf("%s; see '%s --help'", unfitting(c, args), c.CommandPath())}
	}
}

// unfitting returns what is wrong with the arguments of a command.
func unfitting(c *cobra.Command, args []string) string {
	_, wanted, _ := strings.Cut(c.Use, " ")
	switch most := len(strings.Fields(wanted)); {
	case most == 0 && c.HasSubCommands():
		return unknownCommand(c, args[0])
	case most == 0:
		return fmt.Sprintf("'%s' takes no arguments, got %q", c.CommandPath(), args[0])
	case len(args) == 0:
		return fmt.Sprintf("'%s' needs %s", c.CommandPath(), wanted)
	case len(args) > most && suggestBelow(c, args[0]) != "":
		return unknownCommand(c, args[0])
	case len(args) > most:
		return fmt.Sprintf("'%s' takes %s, got %s; quote an argument of several words", c.CommandPath(), wanted,
			term.Count(len(args), "argument"))
	}
	return fmt.Sprintf("'%s' takes %s, got %s", c.CommandPath(), wanted, term.Count(len(args), "argument"))
}

// unknownCommand returns the error for a command that c does not have.
func unknownCommand(c *cobra.Command, typed string) string {
	return fmt.Sprintf("'%s' has no command %q%s", c.CommandPath(), typed, suggestBelow(c, typed))
}

// suggestBelow returns a suggestion of subcommands that typed may mean: it is a prefix or a misspelling of
// them. "" if there are none.
func suggestBelow(c *cobra.Command, typed string) string {
	known, meant := commandsBelow(c), []string(nil)
	for _, name := range known {
		if typed != "" && strings.HasPrefix(name, strings.ToLower(typed)) {
			meant = append(meant, fmt.Sprintf("'%s %s'", c.CommandPath(), name))
		}
	}
	if near := yamltree.Nearest(strings.ToLower(typed), known); near != "" && len(meant) == 0 {
		meant = []string{fmt.Sprintf("'%s %s'", c.CommandPath(), near)}
	}
	if len(meant) == 0 {
		return ""
	}
	return " (did you mean " + strings.Join(meant, " or ") + "?)"
}

// refuseUnknownTopics makes 'help' for an unknown command an error.
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

// commandsBelow returns the names of the subcommands of c.
func commandsBelow(c *cobra.Command) (names []string) {
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return names
}

// didYouMean returns the end of a message that suggests the most similar known word; "" if there is none.
func didYouMean(typed string, known []string) string {
	if meant := yamltree.Nearest(typed, known); meant != "" {
		return "; did you mean " + meant + "?"
	}
	return ""
}

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

// badFlag returns the error of an invalid flag.
func badFlag(c *cobra.Command, err error) error {
	said := err.Error()
	if invalid, is := errors.AsType[*pflag.InvalidValueError](err); is {
		if cause, number := errors.AsType[*strconv.NumError](err); number {
			said = fmt.Sprintf("--%s %s: want %s", invalid.GetFlag().Name, cause.Num, wantedBy(cause))
		}
	} else if bare, is := errors.AsType[*pflag.ValueRequiredError](err); is {
		said = strings.TrimPrefix(bare.Error(), "flag needs an argument: ") + " needs a value"
	} else if unknown, is := errors.AsType[*pflag.NotExistError](err); is && unknown.GetSpecifiedShortnames() != "" {
		said += "; write -- before an argument that begins with -"
	} else if is {
		var known []string
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				known = append(known, f.Name)
			}
		})
		if meant := yamltree.Nearest(unknown.GetSpecifiedName(), known); meant != "" {
			said += "; did you mean --" + meant + "?"
		}
	}
	return usageError{fmt.Errorf("%s; see '%s --help'", said, c.CommandPath())}
}

// wantedBy names the expected form of a value.
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
