//go:build iceberg

package iceberg

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/table"

	"outlierd/schema"
	"outlierd/sinks"
)

var _ sinks.Adopter = (*Sink)(nil)

// Sink is a [sinks.Sink]. An error makes it discard everything cached and read it from the lake again.
type Sink struct {
	options Options
	place   *place
	writers *lakeTable
	tables  map[*schema.Table]*lakeTable
	rebuild bool // during a rebuild: tables and columns that others dropped are created again

	// Tests replace these.
	step func(what string) error // called before each commit
	now  func() time.Time        // the clock
	keep retention
}

// writersTable is a table without rows. Its properties have the watermarks and the tables of each
// writer.
const writersTable = "outlierd_writers"

// The names of properties of a writer, see [Sink.property].
const (
	prefix = "outlierd."

	watermarkName = "watermark" // id of the last answer in the table; of outlierd_writers: in all tables
	opsName       = "ops"       // of outlierd_writers: version of the operations tables
	tablesName    = "tables"    // of outlierd_writers: name → UUID of the tables of the writer, as JSON
	commitName    = "commit"    // unique token of the last commit of the writer
)

// Open opens the catalog and creates missing tables.
func Open(ctx context.Context, o Options) (*Sink, error) {
	return open(ctx, o, func(*Sink) {})
}

func open(ctx context.Context, o Options, adjust func(*Sink)) (*Sink, error) {
	p, err := openPlace(ctx, o)
	if err != nil {
		return nil, err
	}
	s := newSink(o, p)
	adjust(s)
	if err := s.createTables(ctx); err != nil {
		return nil, errors.Join(s.explain(err), p.close())
	}
	return s, nil
}

func newSink(o Options, p *place) *Sink {
	s := &Sink{
		options: o, place: p, tables: map[*schema.Table]*lakeTable{},
		step: func(string) error { return nil }, now: time.Now, keep: kept,
	}
	s.writers = s.tableOf(nil)
	for _, t := range slices.Concat(o.Tables, o.Ops) {
		s.tables[t] = s.tableOf(t)
	}
	return s
}

// explain words an error of the lake, see [place.explain].
func (s *Sink) explain(err error) error { return s.place.explain("lake", err) }

// Name implements [sinks.Sink].
func (s *Sink) Name() string { return "iceberg" }

// Watermark implements [sinks.Sink].
func (s *Sink) Watermark(ctx context.Context) (int64, error) { return s.mark(ctx, watermarkName) }

// OpsVersion implements [sinks.Sink].
func (s *Sink) OpsVersion(ctx context.Context) (int64, error) { return s.mark(ctx, opsName) }

func (s *Sink) mark(ctx context.Context, name string) (int64, error) {
	if err := s.writers.load(ctx); err != nil {
		return 0, s.explain(err)
	}
	mark, err := s.writers.mark(name)
	return mark, s.explain(err)
}

// Close implements [sinks.Sink].
func (s *Sink) Close() error { return s.place.close() }

// property returns the full name of a property of this writer.
func (s *Sink) property(name string) string { return prefix + s.options.Instance + "." + name }

// createTables creates missing tables. It returns an error for a table that existed before and was
// dropped, instead of hiding the loss of its rows by a new, empty table.
func (s *Sink) createTables(ctx context.Context) error {
	namespace := catalog.ToIdentifier(s.options.Namespace)
	err := s.place.CreateNamespace(ctx, namespace, nil)
	if err != nil && !errors.Is(err, catalog.ErrNamespaceAlreadyExists) {
		return fmt.Errorf("create namespace %s: %w", s.options.Namespace, s.place.plain(err))
	}
	existing := map[string]bool{}
	for id, err := range s.place.ListTables(ctx, namespace) {
		if err != nil {
			return fmt.Errorf("list the tables of namespace %s: %w", s.options.Namespace, s.place.plain(err))
		}
		existing[catalog.TableNameFromIdent(id)] = true
	}
	if !existing[writersTable] {
		if err := s.writers.createTable(ctx); err != nil {
			return err
		}
	}
	if err := s.writers.load(ctx); err != nil {
		return err
	}
	known, err := s.knownTables()
	if err != nil {
		return err
	}
	made := map[string]string{}
	for _, t := range slices.Concat(s.options.Tables, s.options.Ops) {
		l := s.tables[t]
		if l.uuid = known[l.name()]; l.uuid != "" && !s.rebuild {
			if !existing[l.name()] {
				return fmt.Errorf("table %s is gone from namespace %s: bring it back; %w",
					l.name(), s.options.Namespace, ErrRebuild)
			}
			continue
		}
		if !existing[l.name()] {
			if err := l.createTable(ctx); err != nil {
				return err
			}
		}
		l.uuid = ""
		if err := l.load(ctx); err != nil {
			return err
		}
		made[l.name()] = l.uuid
	}
	if len(made) == 0 {
		return nil
	}
	return s.noteTables(ctx, made)
}

// knownTables returns the UUIDs of the tables of this writer, by name.
func (s *Sink) knownTables() (map[string]string, error) {
	known := map[string]string{}
	text := s.writers.table.Properties()[s.property(tablesName)]
	if text == "" {
		return known, nil
	}
	if err := json.Unmarshal([]byte(text), &known); err != nil {
		return nil, fmt.Errorf("property %s of table %s: %w", tablesName, writersTable, err)
	}
	return known, nil
}

// noteTables adds tables to those that knownTables returns.
func (s *Sink) noteTables(ctx context.Context, made map[string]string) error {
	return s.writers.commit(ctx, func(tx *table.Transaction) (iceberg.Properties, error) {
		known, err := s.knownTables()
		if err != nil {
			return nil, err
		}
		maps.Copy(known, made)
		text, err := json.Marshal(known)
		return iceberg.Properties{s.property(tablesName): string(text)}, err
	})
}

// advance changes a watermark or version in outlierd_writers. It returns an error if its value is not
// from.
func (s *Sink) advance(ctx context.Context, name string, from, to int64) error {
	return s.writers.commit(ctx, func(*table.Transaction) (iceberg.Properties, error) {
		at, err := s.writers.mark(name)
		if err != nil {
			return nil, err
		}
		if at != from {
			return nil, fmt.Errorf("another process has written as %s: the %s was %d and is %d",
				s.options.Instance, name, from, at)
		}
		return iceberg.Properties{s.property(name): strconv.FormatInt(to, 10)}, nil
	})
}

// set sets a watermark or version in outlierd_writers, whatever its value is.
func (s *Sink) set(ctx context.Context, name string, to int64) error {
	return s.writers.commit(ctx, func(*table.Transaction) (iceberg.Properties, error) {
		return iceberg.Properties{s.property(name): strconv.FormatInt(to, 10)}, nil
	})
}

// forget discards everything cached, so that the next call reads it from the lake.
func (s *Sink) forget() {
	for _, l := range s.tables {
		l.forget()
	}
	s.writers.forget()
}

// fail discards everything cached if err is not nil, and explains err.
func (s *Sink) fail(err error) error {
	if err == nil {
		return nil
	}
	s.forget()
	return s.explain(err)
}

// mostTries is the maximum number of retries of a commit that conflicts with those of other writers.
const mostTries = 60

// pause waits before a commit is retried: exponential backoff with jitter, up to 625 ms.
func pause(ctx context.Context, try int) error {
	most := min(time.Duration(1<<min(try, 6))*10*time.Millisecond, 500*time.Millisecond)
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(most/4 + rand.N(most)):
		return nil
	}
}
