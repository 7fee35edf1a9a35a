package query

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	"outlierd/schema"
)

// Process asks SQL of the user's in processes of their own. DuckDB cannot be trusted to
// stop: it looks for interruptions between chunks of rows, counts no memory of single
// values, and computes constants while it binds. A process can be ended whatever it
// does, has a limit of memory on Linux, and its crash ends no other process.
type Process struct {
	Command func(context.Context) *exec.Cmd // makes a process that calls [Serve] on its standard input and output
	Timeout time.Duration                   // 0 means 30 s
}

// question is what such a process is asked: what the SQL gives of the published file, as ids or
// as rows, or, without either, whether it can be bound. A time in JSON loses the name of its zone.
type question struct {
	SQL   string
	IDs   *IDs
	Zone  string
	First *first
}

type answer struct {
	Fields  []Field
	Values  []string
	First   *Rows
	Problem string
}

// Bind is [Bind] with the tables that this program declares.
func (a Process) Bind(ctx context.Context, sql string) ([]Field, error) {
	got, err := a.ask(ctx, question{SQL: sql})
	return got.Fields, err
}

// Query is [IDs.Query].
func (a Process) Query(ctx context.Context, s IDs, sql string) ([]string, error) {
	got, err := a.ask(ctx, question{SQL: sql, IDs: &s, Zone: s.Now.Location().String()})
	return got.Values, err
}

func (a Process) ask(ctx context.Context, q question) (got answer, err error) {
	asked, err := json.Marshal(q)
	if err != nil {
		return got, fmt.Errorf("run SQL: %w", err)
	}
	limited, cancel := context.WithTimeout(ctx, cmp.Or(a.Timeout, timeLimit))
	defer cancel()
	process := a.Command(limited)
	process.Stdin = bytes.NewReader(asked)
	said, err := process.Output()
	if err == nil {
		err = json.Unmarshal(said, &got)
	}
	switch {
	case ctx.Err() != nil:
		return answer{}, ctx.Err()
	case limited.Err() != nil:
		return answer{}, slow(cmp.Or(a.Timeout, timeLimit))
	case err != nil:
		return answer{}, died(err)
	case got.Problem != "":
		return answer{}, errors.New(got.Problem)
	}
	return got, nil
}

// died says why a process gave no answer. Where memory cannot be had DuckDB may still
// say so; the rest of a program is ended by that.
func died(err error) error {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		said, _, _ := bytes.Cut(exit.Stderr, []byte("\n"))
		return fmt.Errorf("the process that ran the SQL ended, possibly because memory ran out (%s): "+
			"make it read fewer rows, or produce smaller values",
			strings.TrimSpace(fmt.Sprintf("%v %.200s", exit, said)))
	}
	return fmt.Errorf("run SQL in another process: %w", err)
}

// Serve answers one question of a [Process] and confines this process
// to what that may take. It returns an error if there was no question, or the answer could not be written.
func Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	var q question
	if err := json.NewDecoder(in).Decode(&q); err != nil {
		return fmt.Errorf("read the request: %w", err)
	}
	if err := Confine(); err != nil {
		return err
	}
	got, err := q.answer(ctx)
	if err != nil {
		got.Problem = err.Error()
	}
	return json.NewEncoder(out).Encode(got)
}

func (q question) answer(ctx context.Context) (got answer, err error) {
	if q.First != nil {
		got.First, err = q.First.rows(ctx, q.SQL)
		return got, err
	}
	if q.IDs == nil {
		got.Fields, err = Bind(ctx, q.SQL, schema.Tables(), schema.OpsTables())
		return got, err
	}
	zone, err := time.LoadLocation(q.Zone)
	if err != nil {
		return got, fmt.Errorf("the time zone of the SQL: %w", err)
	}
	if !q.IDs.Now.IsZero() {
		q.IDs.Now = q.IDs.Now.In(zone)
	}
	got.Values, err = q.IDs.Query(ctx, q.SQL)
	return got, err
}
