package command

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"outlierd/sync/job"
	"outlierd/sync/ledger"
)

func trendingFormatsCommand(g *globals) *cobra.Command {
	params := wishes{}
	var again bool
	c := &cobra.Command{
		Use:   "trending-formats",
		Short: "Fetch and print the trending formats; 1 credit",
		Long: `Fetch the trending formats once and print them, one row per element of the answer. The
service documents no parameters: each --param is sent as written. An answer that was bought
within the last six hours comes from the journal and costs nothing.`,
		Example: `  outlierd trending-formats
  outlierd trending-formats --param language=en -o json`,
		RunE: func(c *cobra.Command, _ []string) error {
			verb := job.VerbTrendingFormats
			return runOnce(c.Context(), g, request{
				verb: verb, job: wishes{string(verb): params}, again: again, show: showFormats(g.out),
			})
		},
	}
	c.Flags().Func("param", "a parameter to send, as name=value; repeatable", func(pair string) error {
		name, text, ok := strings.Cut(pair, "=")
		switch {
		case !ok || strings.TrimSpace(name) == "":
			return errors.New("must be name=value, as in language=en")
		case strings.HasPrefix(name, "x-"): // the job file ignores such keys
			return errors.New("a name cannot begin with x-")
		}
		return addText(params, name, text)
	})
	addAgain(c, &again)
	g.spending.addFlags(c)
	return c
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
