package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
)

// TestMissingSystemFilesHaveARemedy: what a machine or container lacks is reported in one line with the remedy.
func TestMissingSystemFilesHaveARemedy(t *testing.T) {
	t.Parallel()
	simulated := "version: 1\nservice: {url: \"sim://\"}\njobs:\n  one: {every: 52w, search: {query: [espresso]}}\n"
	for name, c := range map[string]struct {
		jobs string
		env  []string
		args []string
		want string // in the only line of output; "" if the command succeeds
	}{
		"certificates": {
			"version: 1\nservice: {url: \"https://127.0.0.1:9\", key: \"${OUTLIERD_KEY}\"}\nbudget: {per_month: 10}\n" +
				"jobs:\n  one: {every: 52w, search: {query: [espresso]}}\n",
			[]string{"SSL_CERT_FILE=/nonexistent", "SSL_CERT_DIR=/nonexistent", "OUTLIERD_KEY=canary"}, []string{"up"},
			"outlierd: verify the certificate of https://127.0.0.1:9: this system has no CA certificates; install them",
		},
		"a folder for temporary files": {
			simulated, []string{"TMPDIR=/nonexistent"}, []string{"plan"},
			"set TMPDIR to a folder that user " + fmt.Sprint(os.Getuid()) + " may write to",
		},
		"a folder for temporary files, which run does not need": {simulated, []string{"TMPDIR=/nonexistent"}, []string{"run"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &person{T: t, dir: t.TempDir()}
			p.write(c.jobs)
			cmd := p.process(t.Context(), c.args...)
			cmd.Env = c.env // no HOME, no PATH, no time zone
			out, err := cmd.CombinedOutput()
			if c.want == "" {
				if err != nil {
					t.Errorf("error %v, want none, and output\n%s", err, out)
				}
				return
			}
			if err == nil || !strings.Contains(string(out), c.want) || strings.Count(string(out), "\n") != 1 {
				t.Errorf("error %v, and output\n%s\nwant one line with %q", err, out, c.want)
			}
		})
	}
}

func TestUnwritableDataFolderHasRemedy(t *testing.T) {
	t.Parallel()
	for cause, remedy := range map[error]string{
		syscall.EROFS:  "mount /data so that user",
		syscall.ENOSPC: "free some space on the disk of /data",
		syscall.EDQUOT: "free some space on the disk of /data",
	} {
		err := explainUnwritable(fmt.Errorf("create the data folder: %w", &fs.PathError{Op: "mkdir", Path: "/data", Err: cause}), "/data")
		if !errors.Is(err, cause) || !strings.Contains(err.Error(), remedy) {
			t.Errorf("%v: got %v, want %q", cause, err, remedy)
		}
	}
	if other := errors.New("another"); explainUnwritable(other, "/data") != other {
		t.Errorf("another error: got %v, want it unchanged", explainUnwritable(other, "/data"))
	}
}
