package command

import (
	"testing"

	"outlierd/sync/job"
)

func TestWhatIfChangesTheBudgetOnly(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"per_month", "per_month=", "per_month=-1", "per_day=4", "per_month=4 ", "per_month=9999999999999"} {
		config := &job.Config{}
		if err := assumeBudget(config, text); err == nil || config.Budget.PerMonth != nil {
			t.Errorf("--what-if %q gave a budget of %v", text, config.Budget.PerMonth)
		}
	}
	config := &job.Config{}
	if err := assumeBudget(config, "per_month=400"); err != nil || *config.Budget.PerMonth != 400 {
		t.Errorf("%v", err)
	}
}
