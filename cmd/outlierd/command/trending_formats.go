package command

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"outlierd/sync/job"
	"outlierd/sync/ledger"
)

func trendingFormatsCommand(g *globals) *cobra.Command {
	var params []string
	var again bool
	c := &cobra.Command{
		Use:   "trending-formats",
		Short: "Fetch and print the trending formats; 1 credit",
		Long: `Fetch the trending formats once and print them, one row per element of the answer. The
service documents no parameters: each --param is sent as written. An answer that was bought
within the last six hours comes from the journal and costs nothing.`,
		Example: `  outlierd trending-formats
  outlierd trending-formats --param language=en -o json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ask, err := parseParams(params)
			if err != nil {
				return err
			}
			verb := job.VerbTrendingFormats
			return runOnce(c.Context(), g, request{
				verb: verb, job: wishes{string(verb): ask}, again: again, show: showFormats(g.out),
			})
		},
	}
	c.Flags().StringArrayVar(&params, "param", nil, "a parameter to send, as name=value; repeatable")
	addAgain(c, &again)
	g.spending.addFlags(c)
	return c
}

// parseParams parses name=value pairs. A name that is given twice has both values.
func parseParams(pairs []string) (wishes, error) {
	params := wishes{}
	for _, pair := range pairs {
		name, text, ok := strings.Cut(pair, "=")
		switch {
		case !ok || strings.TrimSpace(name) == "":
			return nil, usageError{fmt.Errorf("--param %q: must be name=value, as in language=en", pair)}
		case strings.HasPrefix(name, "x-"): // the job file ignores such keys
			return nil, usageError{fmt.Errorf("--param %s: a name cannot begin with x-", pair)}
		}
		before, _ := params[name].([]string)
		params[name] = append(before, text)
	}
	return params, nil
}

// showFormats returns the query for the answer of a run, bought or from the journal: the newest one to its
// request.
func showFormats(out *printer) shower {
	return func(s showing) (string, error) {
		steps, err := s.program.Engine.Store.Steps.OfRun(s.row.ID)
		if err != nil {
			return "", err
		}
		response := int64(0) // the id of no answer
		for _, step := range steps {
			answer, err := s.program.Engine.Store.Journal.Answered(step.Query.Op(), step.Query.Encode(),
				s.row.Started.Add(-s.spec.ReuseFor), time.Now().Add(ledger.Skew))
			if err != nil {
				return "", err
			}
			if answer != nil {
				response = answer.ID
			}
		}
		return fmt.Sprintf("select %s from trending_formats as t where t._response_id = %d order by t.position",
			out.columns("t.position, t.value"), response), nil
	}
}
