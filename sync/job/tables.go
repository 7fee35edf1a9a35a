package job

import (
	"slices"
	"strings"
	"time"

	tables "outlierd/schema"
	"outlierd/sync/yamltree"
)

// Table says what is left out of a table.
type Table struct {
	Name    string
	Off     bool          // all rows
	Without []string      // columns that are NULL, sorted
	Keep    time.Duration // rows of earlier days, if more than 0; whole days

	At yamltree.Place // in the file
}

// minDays are read by the views of a week, such as new_this_week.
const minDays = 7

// readTables reads what is left out of the tables. Keys and lineage always stay, and so do the value whose growth a
// table shows and imported_seen_at, which decides first_seen_at: the file need not list them.
func readTables(c *Config, n *yamltree.Node) {
	names := []string{}
	for _, t := range tables.Tables() {
		names = append(names, t.Name)
	}
	for _, e := range n.Pairs() {
		i := slices.Index(names, e.Key.Text)
		switch {
		case i < 0 && strings.HasPrefix(e.Key.Text, "ops."):
			e.Key.Refuse("the tables ops.* are always kept whole")
		case i < 0:
			e.Key.RefuseWithHint(e.Key.DidYouMean(e.Key.Text, names), "no such table; `outlierd schema` lists them")
		case e.Value.Has(yamltree.Text, yamltree.Mapping):
			t := Table{Name: names[i], Off: e.Value.Has(yamltree.Text), At: e.Key.At()}
			of := tables.Tables()[i]
			t.Without = leftOut(of, e.Value.Get("columns"))
			t.Keep = readKeep(of, e.Value.Get("keep"))
			c.Tables = append(c.Tables, t)
		}
	}
}

// leftOut returns the columns of a table that a list of columns to keep does not have.
func leftOut(t *tables.Table, n *yamltree.Node) (without []string) {
	if n == nil || !n.Has(yamltree.List) {
		return nil
	}
	var names, kept []string
	for _, f := range t.Stored().Fields() {
		names = append(names, f.Name)
	}
	for _, item := range n.Items {
		if item.Has(yamltree.Text) && !slices.Contains(names, item.Text) {
			item.RefuseWithHint(item.DidYouMean(item.Text, names), "%s has no column %s", t.Name, item.Shown())
		}
		kept = append(kept, item.Text)
	}
	for _, c := range t.Columns {
		if !slices.Contains(slices.Concat(kept, t.Key, []string{t.Grows, tables.ImportedSeenAt}), c.Name) {
			without = append(without, c.Name)
		}
	}
	slices.Sort(without)
	return without
}

// readKeep reads how long rows are kept. Only rows that nothing replaces have an age.
func readKeep(t *tables.Table, n *yamltree.Node) time.Duration {
	switch keep := valueOf[time.Duration](n); {
	case keep == 0: // missing or refused
	case t.Identity() != nil && t.History != nil:
		n.RefuseWithHint("write it for "+t.History.Name, "is for histories, and %s has only the last row of each key", t.Name)
	case t.Identity() != nil:
		n.Refuse("is for histories, and %s has only the last answer about each %s", t.Name, t.Key[0])
	case keep < minDays*day || keep%day != 0:
		n.Refuse("must be whole days, and at least %dd, because views such as new_this_week read the last week, got %s",
			minDays, n.Shown())
	default:
		return keep
	}
	return 0
}
