//go:build duckdb_arrow

package database

/*
#include <stdint.h>
#include <stdlib.h>

// The part of Arrow's C stream interface that is used here.
struct ArrowSchema {
	const char *format, *name, *metadata;
	int64_t flags, n_children;
	struct ArrowSchema **children, *dictionary;
	void (*release)(struct ArrowSchema *);
	void *private_data;
};
struct ArrowArray;
struct ArrowArrayStream {
	int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *);
	int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *);
	const char *(*get_last_error)(struct ArrowArrayStream *);
	void (*release)(struct ArrowArrayStream *);
	void *private_data;
};

struct stream {
	struct ArrowArrayStream shown; // the stream that DuckDB reads
	struct ArrowArrayStream rows;
	struct ArrowSchema schema;
};

static int showSchema(struct ArrowArrayStream *shown, struct ArrowSchema *out) {
	*out = ((struct stream *)shown->private_data)->schema;
	return 0;
}

static int nextRows(struct ArrowArrayStream *shown, struct ArrowArray *out) {
	struct ArrowArrayStream *rows = &((struct stream *)shown->private_data)->rows;
	return rows->get_next(rows, out);
}

static const char *lastError(struct ArrowArrayStream *shown) {
	struct ArrowArrayStream *rows = &((struct stream *)shown->private_data)->rows;
	return rows->get_last_error(rows);
}

static void keep(struct ArrowArrayStream *shown) {} // [stream.release] releases it

static struct stream *newStream(void) {
	struct stream *s = calloc(1, sizeof *s);
	if (s != NULL) {
		s->shown = (struct ArrowArrayStream){showSchema, nextRows, lastError, keep, s};
	}
	return s;
}
*/
import "C"

import (
	"errors"
	"fmt"
	"reflect"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/cdata"
	"github.com/duckdb/duckdb-go/v2/arrowmapping"
	"github.com/duckdb/duckdb-go/v2/mapping"
)

// stream is a stream of Arrow's C interface, by which DuckDB reads rows of a feed.
//
// DuckDB requests the schema of a stream several times when a view of it is registered, and again for
// each read. It never releases a schema, because it assumes that it always gets the same one. The
// driver's RegisterView exports a new schema each time, which leaks 15 KB per batch of hits: hundreds
// of MB a month in a daemon. A stream therefore has one schema, which is released with the instance.
// The driver cannot register such a stream, but its low-level bindings can.
type stream struct{ c *C.struct_stream }

func newStream(f *feed) (*stream, error) {
	s := &stream{c: C.newStream()}
	if s.c == nil {
		return nil, errors.New("std::bad_alloc") // like DuckDB, so that [OutOfMemory] matches it
	}
	cdata.ExportArrowSchema(f.schema, (*cdata.CArrowSchema)(unsafe.Pointer(&s.c.schema)))
	cdata.ExportRecordReader(f, (*cdata.CArrowArrayStream)(unsafe.Pointer(&s.c.rows)))
	return s, nil
}

// register creates a view that reads the stream.
func (s *stream) register(db *DB, view string) error {
	// The driver does not export its handle.
	handle := reflect.ValueOf(db.conn).Elem().FieldByName("conn").FieldByName("Ptr")
	stream := arrowmapping.ArrowStream{Ptr: unsafe.Pointer(&s.c.shown)}
	state := arrowmapping.ArrowScan(mapping.Connection{Ptr: handle.UnsafePointer()}, view, stream)
	if state == mapping.StateError {
		return fmt.Errorf("DuckDB refused the columns of view %s", view)
	}
	return nil
}

// release frees the stream. It must be called after the instance was closed.
func (s *stream) release() {
	cdata.ReleaseCArrowArrayStream((*cdata.CArrowArrayStream)(unsafe.Pointer(&s.c.rows)))
	cdata.ReleaseCArrowSchema((*cdata.CArrowSchema)(unsafe.Pointer(&s.c.schema)))
	C.free(unsafe.Pointer(s.c))
}

// feed creates a view that reads the rows of the returned feed.
func (db *DB) feed(view string, schema *arrow.Schema) (*feed, error) {
	f := &feed{schema: schema}
	s, err := newStream(f)
	if err != nil {
		return nil, err
	}
	db.streams = append(db.streams, s.release)
	if err := s.register(db, view); err != nil {
		return nil, err
	}
	if db.feeds == nil {
		db.feeds = map[string]*feed{}
	}
	db.feeds[view] = f
	return f, nil
}
