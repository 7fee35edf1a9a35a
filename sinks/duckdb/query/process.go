package query

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
)

// Process runs user SQL in separate processes: one for each query, and one for all texts that are bound
// together. DuckDB itself does not stop reliably: it checks for interrupts only between chunks of rows, does
// not count the memory of single values, and evaluates constants while binding. A process can always be
// killed, has a memory limit on Linux, and a crash affects only its own SQL.
type Process struct {
	// Command creates a process that calls [Serve] with its stdin and stdout. If it is nil, SQL runs in this process.
	Command func(context.Context) *exec.Cmd
}

// request is the request to the process: run SQL, or only bind the texts of Bind.
type request struct {
	Ask  *ask
	Bind []string
}

type response struct {
	Bound   []Bound
	Rows    *Rows
	Problem string
}

// Bound is the result of binding one text.
type Bound struct {
	Fields  []Field
	Problem string // why it cannot be bound; "" if it can
}

// Err returns why the text cannot be bound; nil if it can.
func (b Bound) Err() error {
	if b.Problem == "" {
		return nil
	}
	return errors.New(b.Problem)
}

// Bind is [Bind] in one separate process. If that does not end well, because of one of the texts, each is bound in a
// process of its own.
func (a Process) Bind(ctx context.Context, texts ...string) []Bound {
	if len(texts) == 0 {
		return nil
	}
	got, err := a.sendRequest(ctx, request{Bind: texts})
	if err == nil && len(got.Bound) != len(texts) {
		err = fmt.Errorf("run SQL in another process: %d answers to %d questions", len(got.Bound), len(texts))
	}
	switch {
	case err == nil:
		return got.Bound
	case len(texts) == 1:
		return []Bound{{Problem: err.Error()}}
	}
	var bound []Bound
	for _, text := range texts {
		bound = append(bound, a.Bind(ctx, text)...)
	}
	return bound
}

// Query runs user SQL that [Bind] accepts on the published file, and returns the values of the selected
// column as texts: in the order of the result, with duplicates, without NULLs. It opens the file
// read-only for this query.
func (a Process) Query(ctx context.Context, s IDs, sql string) (values []string, err error) {
	got, err := a.sendRequest(ctx, request{Ask: &ask{SQL: sql, Path: s.Path, Zone: s.Zone.String(), Column: &s.Column,
		Limit: maxValues + 1, Memory: jobMemory}})
	switch {
	case err != nil:
		return nil, err
	case len(got.Rows.Rows) > maxValues:
		return nil, fmt.Errorf("the SQL returns more than %d values: add a LIMIT to it", maxValues)
	}
	for _, row := range got.Rows.Rows {
		if row[0] != nil {
			values = append(values, *row[0])
		}
	}
	return values, nil
}

func (a Process) sendRequest(ctx context.Context, q request) (got response, err error) {
	if a.Command == nil {
		return q.run(ctx)
	}
	asked, err := json.Marshal(q)
	if err != nil {
		return got, fmt.Errorf("run SQL: %w", err)
	}
	limited, cancel := context.WithTimeout(ctx, timeLimit)
	defer cancel()
	process := a.Command(limited)
	process.Stdin = bytes.NewReader(asked)
	said, err := process.Output()
	if err == nil {
		err = json.Unmarshal(said, &got)
	}
	switch {
	case ctx.Err() != nil:
		return response{}, ctx.Err()
	case limited.Err() != nil:
		return response{}, fmt.Errorf("the SQL took longer than %v: make it read fewer rows", timeLimit)
	case err != nil:
		return response{}, exitError(err)
	case got.Problem != "":
		return response{}, errors.New(got.Problem)
	}
	return got, nil
}

// exitError returns the error for a process that exited without an answer. This is often a lack of memory:
// DuckDB may report it, but it ends the Go runtime.
func exitError(err error) error {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		said, _, _ := bytes.Cut(exit.Stderr, []byte("\n"))
		return fmt.Errorf("the process that ran the SQL ended, possibly because memory ran out (%s): "+
			"make it read fewer rows, or produce smaller values",
			strings.TrimSpace(fmt.Sprintf("%v %.200s", exit, said)))
	}
	return fmt.Errorf("run SQL in another process: %w", err)
}

// Serve reads one request of a [Process] from in, confines this process, runs the SQL, and writes the
// response to out. It returns an error if the request cannot be read or the response cannot be written.
// Errors of the SQL are in the response.
func Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	var q request
	if err := json.NewDecoder(in).Decode(&q); err != nil {
		return fmt.Errorf("read the request: %w", err)
	}
	if err := Confine(); err != nil {
		return err
	}
	got, err := q.run(ctx)
	if err != nil {
		got.Problem = err.Error()
	}
	return json.NewEncoder(out).Encode(got)
}

func (q request) run(ctx context.Context) (got response, err error) {
	if q.Ask == nil {
		got.Bound = Bind(ctx, q.Bind...)
		return got, nil
	}
	got.Rows, err = q.Ask.read(ctx)
	return got, err
}
