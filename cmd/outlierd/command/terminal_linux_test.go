package command

import (
	"os"
	"testing"
)

// TestDumbTerminalGetsNoBlock: the shell of an editor would print the escape sequences that redraw it.
func TestDumbTerminalGetsNoBlock(t *testing.T) {
	t.Parallel()
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err) // this machine has no pseudo-terminals
	}
	defer terminal.Close()
	for kind, want := range map[string]bool{"xterm": true, "dumb": false, "": true} {
		out := newPrinter(terminal, func(string) (string, bool) { return kind, kind != "" })
		if got := out.redraws(); got != want {
			t.Errorf("TERM=%s: redraws %t, want %t", kind, got, want)
		}
	}
}
