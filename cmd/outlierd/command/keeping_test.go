package command

import (
	"context"
	"flag"
	"fmt"
	"time"
)

var keptDays = flag.Int("kept-days", 1, "how many days the daemon of TestOldDaysAndPrunedRows runs")

// up runs a daemon for a while.
func (p *person) up(long time.Duration) {
	p.Helper()
	ctx, stop := context.WithTimeout(p.Context(), long)
	defer stop()
	if _, stderr, code := p.do(ctx, "up"); code != exitDone {
		p.Fatalf("exit code %d, want %d\n%s", code, exitDone, stderr)
	}
}

func (p *person) number(query string) (n int) {
	p.Helper()
	if _, err := fmt.Sscan(p.ask("select "+query), &n); err != nil {
		p.Fatal(err)
	}
	return n
}
