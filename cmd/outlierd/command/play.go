package command

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"
)

// # Weeks in virtual time
//
// Most of what the page shows is a change over time, so the demo needs weeks of data. The program's time is
// package time. The only clock of Go that jumps to the next timer belongs to testing/synctest, so these weeks
// are a test, in a process of its own, because a test ends its process.

const playVerb = "play"

// playCommand returns the hidden command of that process: it runs `up` for some time that ends at a time.
func playCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use: playVerb + " LENGTH END", Short: "Run the schedule in virtual time, for another process", Hidden: true,
		RunE: func(_ *cobra.Command, args []string) error {
			length, wrong := time.ParseDuration(args[0])
			end, err := time.Parse(time.RFC3339, args[1])
			if err := errors.Join(wrong, err); err != nil {
				return usageError{err}
			}
			daemon := func(t *testing.T) {
				time.Sleep(time.Until(end.Add(-length)))
				ctx, stop := context.WithDeadline(t.Context(), end)
				defer stop()
				w := world{in: g.world.in, out: io.Discard, err: g.world.err, env: g.world.env, network: newTransport, unread: true}
				if code := run(ctx, []string{"--config", g.config, "--log-format", "json", "up"}, w); code != exitDone {
					t.Fail()
				}
			}
			testing.Main(func(string, string) (bool, error) { return true, nil }, []testing.InternalTest{
				{Name: playVerb, F: func(t *testing.T) { synctest.Test(t, daemon) }},
			}, nil, nil)
			return errors.New("the process goes on after its test")
		},
	}
}

// playedRun is what the log of that process says of a run that has ended.
type playedRun struct {
	Time    time.Time `json:"time"`
	Level   string    `json:"level"`
	Message string    `json:"msg"`
	Error   string    `json:"err"`
	Credits int       `json:"credits"`
}

// playSchedule runs the schedule of the job file for some time that ends at a time, with a data folder, and calls ended after
// each run.
func playSchedule(ctx context.Context, file, data string, length time.Duration, end time.Time, ended func(playedRun)) error {
	c := exec.CommandContext(ctx, programPath())
	c.Args = []string{"outlierd", playVerb, length.String(), end.Format(time.RFC3339), "--config", file}
	c.Env = append(os.Environ(), "OUTLIERD_DATA="+data)
	var problems bytes.Buffer
	log, err := c.StderrPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line playedRun
		switch err := json.Unmarshal(lines.Bytes(), &line); {
		case err != nil:
			fmt.Fprintf(&problems, "%s\n", lines.Bytes())
		case line.Level == "ERROR":
			fmt.Fprintf(&problems, "%s: %s\n", line.Message, line.Error)
		case line.Message == "run finished":
			ended(line)
		}
	}
	if err := errors.Join(lines.Err(), c.Wait()); err != nil {
		return errors.Join(ctx.Err(), fmt.Errorf("play the schedule in another process: %w\n%s", err, &problems))
	}
	return nil
}
