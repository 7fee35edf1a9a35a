package report

import (
	"fmt"
	"slices"

	"outlierd/cmd/outlierd/term"
	"outlierd/outlier"
	"outlierd/sync/facts"
	"outlierd/sync/forecast"
	"outlierd/sync/job"
	"outlierd/sync/ledger"
)

// Budget describes a budget.
func Budget(b *forecast.Budget, look term.Options) string {
	p := &lines{Style: Style{Zone: look.Zone}}
	shown := shownAmounts(b)
	columns := []string{"credits"}
	for _, at := range shown {
		columns = append(columns, amountColumns[at])
	}
	var rows [][]any
	for i := range b.Caps {
		amounts := amountsOf(&b.Caps[i])
		row := []any{term.Clip(nameCap(&b.Caps[i]), 24)}
		for _, at := range shown {
			row = append(row, orDash(amounts[at]))
		}
		rows = append(rows, row)
	}
	p.addTable(look, columns, rows)
	p.addNotes(b)
	return p.String()
}

// shownAmounts returns the indices of the columns to show: the fixed ones, and those that have values.
func shownAmounts(b *forecast.Budget) (shown []int) {
	for at, column := range amountColumns {
		show := slices.Contains([]string{"cap", "held", "left", "spent"}, column)
		for i := range b.Caps {
			n := amountsOf(&b.Caps[i])[at]
			show = show || n != nil && *n != 0
		}
		if show {
			shown = append(shown, at)
		}
	}
	return shown
}

var amountColumns = [...]string{"cap", "held", "left", "spent", "unknown", "reserved", "scans", "adjusted", "refunded"}

// amountsOf returns the values of amountColumns; nil for a value that does not apply.
func amountsOf(c *facts.CapBalance) [len(amountColumns)]*outlier.Credits {
	return [...]*outlier.Credits{c.Max, &c.Held, c.Left, &c.Spent, &c.Unknown, &c.Reserved, &c.Scans,
		&c.Adjusted, &c.Refunded}
}

// nameCap returns the scope of a cap, for people.
func nameCap(c *facts.CapBalance) string {
	switch {
	case c.Scope == ledger.ScopeJobDay:
		_, day := ledger.CutJobCycle(c.Period)
		return "assistants " + day
	case job.IsOnce(c.Job):
		return "by hand"
	case c.Job != "":
		return "job " + c.Job
	case c.Scope == ledger.ScopeDay:
		return "day " + c.Period
	}
	return "cycle from " + c.Period
}

// orDash returns a number, or a dash if it does not apply.
func orDash[N ~int | ~int64](n *N) any {
	if n == nil {
		return "–"
	}
	return int64(*n)
}

// addNotes adds what does not fit into the table.
func (l *lines) addNotes(b *forecast.Budget) {
	l.add("")
	if b.Cycle.Reserve > 0 {
		l.add("%s of the cycle are reserved for 'run --use-reserve'", term.Count(b.Cycle.Reserve, "credit"))
	}
	for _, a := range b.Adjustments {
		l.add("adjusted on %s by %+d: %s", l.Day(a.At), a.Credits, term.Clip(a.Why, 70))
	}
	l.add("%s", l.needs(&b.Cycle))
	if !b.Cycle.LastsTo.IsZero() {
		l.add("! lasts until %s", l.Day(b.Cycle.LastsTo))
	}
	for _, r := range b.Refusals {
		l.add("! %s", Refusal(r, l.Style))
	}
}

// Block says why calls are blocked, and since when.
func Block(b ledger.Block, in Style) string {
	return fmt.Sprintf("%s (since %s)", term.Plain(b.Reason), in.At(b.Since))
}

// Refusal says why and since when the service refuses calls.
func Refusal(r ledger.Block, in Style) string {
	if r.Kind == ledger.BlockKey {
		return fmt.Sprintf("the service has refused the key since %s (%s):\n"+
			"  calls stop until the key changes or someone runs a job", in.At(r.Since), term.Plain(r.Reason))
	}
	if r.Kind == ledger.BlockClock {
		return fmt.Sprintf("paid calls are blocked since %s:\n  %s", in.At(r.Since), term.Plain(r.Reason))
	}
	return fmt.Sprintf("the account has had no credits left since %s (%s):\n"+
		"  paid calls are tried again after %s, or after 'outlierd budget resume'",
		in.At(r.Since), term.Plain(r.Reason), in.At(r.Until))
}
