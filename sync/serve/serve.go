// Package serve lets commands work while a daemon has locked the state folder.
//
// The daemon listens on a unix socket in that folder, which only its user can access, and serves
// JSON over HTTP. A command reads the state itself, and prints everything that people see. Only
// changes of the state are sent over the socket: a run that a person asks for ([Order]), and small
// changes such as setting a cursor ([Change]). The daemon's engine performs both between two of its
// own calls.
//
// Below /api/v1 are the handlers for other programs, which the daemon also serves over HTTP ([Server.API]). All other paths are
// for commands. The [Version] is part of each, as in /v1/runs. A command that finds another version reports both and does nothing.
//
//   - GET /v1 answers with [About].
//   - POST /v1/login answers with [Ticket].
//   - POST /v1/runs takes an [Order], the job in it with the hash of what the command has read. The answer has an [Event] a line:
//     the run, once it is recorded or the one in progress is joined, and how it ended. What it does meanwhile is in the state.
//     Closing the connection does not stop the run.
//   - POST /v1/runs/{id}/cancel stops a run between two calls.
//   - POST with a [Change] at its path answers with the result of the change.
//
// An error is {"error": Failure}. The kinds of [Failure] decide the exit code of the command: service:KIND of
// [outlier.Error], and the names in the table kinds. A request may have at most 1 MiB and must arrive within 10 seconds.
package serve

import (
	"fmt"
	"time"

	"outlierd/sync/store"
)

// Version is the version of the interface. It is incremented by every change that an older command
// or daemon would misread.
const Version = 1

// About describes the daemon: GET /v1.
type About struct {
	Interface int       `json:"interface"` // its [Version]
	Program   string    `json:"version"`
	PID       int       `json:"pid"`
	Config    string    `json:"config"` // path of the job file
	Started   time.Time `json:"started"`

	Stuck   store.Seconds `json:"stuck_seconds,omitzero"` // see [Server.Stuck]
	Page    string        `json:"page,omitempty"`         // the address of its page, if it serves one
	Refused string        `json:"refused,omitempty"`      // why the job file on disk is not in use
	// Changed says when the job file is read again if it differs from the one in use: [ReadSoon] or
	// [ReadOnSignal].
	Changed string `json:"changed,omitempty"`
}

// Ticket logs one browser in to the page of a daemon, once and within a minute: POST /v1/login.
type Ticket struct {
	Path string `json:"path"` // path of the page, with a secret
}

// When a job file that has changed is read again.
const (
	ReadSoon     = "soon"
	ReadOnSignal = "signal"
)

// Name returns the daemon's name for messages.
func (a *About) Name() string { return fmt.Sprintf("'outlierd up' (process %d)", a.PID) }
