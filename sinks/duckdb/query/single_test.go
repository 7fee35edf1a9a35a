package query

import "testing"

func TestSeveralStatementsAreDetected(t *testing.T) {
	for text, several := range map[string]bool{
		"select 1":                          false,
		"select 1;":                         false,
		"select 1; ; \n":                    false,
		"select 1; -- that is all; really":  false,
		"/* a; b */ select 'a; b', \"c;d\"": false,
		"select 'it''s; fine'":              false,
		`select e'it\'s; fine'`:             false,
		"select $$a; b$$, $x$c; d$x$":       false,
		"select $a$b $c$ d; e$a$":           false,
		"select $a$b; c":                    true, // DuckDB refuses it
		"select 1 as a$b$; select 2":        true,
		"select 1;\n-- $a$\n; /* $b$ */":    false,
		"pivot t on a using first(b)":       false,
		"select 1; select 2":                true,
		"select 1 /* ; */ ; select ';'":     true,
		"set threads = 1; select 1":         true,
		"select 'a' --'\n; select 2":        true,
	} {
		if got := checkSingle(text) != nil; got != several {
			t.Errorf("%q: several statements %v, want %v", text, got, several)
		}
	}
}
