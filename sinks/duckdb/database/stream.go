//go:build duckdb_arrow

package database

/*
#include <stdint.h>
#include <stdlib.h>

// The C interface of Arrow, as far as these lines need it.
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
	struct ArrowArrayStream shown; // what DuckDB has
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

static void keep(struct ArrowArrayStream *shown) {} // [stream.release] does it

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

// # Streams
//
// DuckDB reads rows of Go through a stream of Arrow's C interface. It asks a stream for its schema
// several times when a view of it is registered, and again with each read. It never releases a
// schema, because it takes it for granted that each time it gets the same one. The driver's
// RegisterView exports it anew each time, which leaves 15 KB behind for each batch of hits: a daemon
// would grow by hundreds of MB in a month. So the stream is ours. It has one schema, which goes with
// the instance. The driver has no way to register such a stream, but the bindings below it have.
type stream struct{ c *C.struct_stream }

func newStream(f *feed) (*stream, error) {
	s := &stream{c: C.newStream()}
	if s.c == nil {
		return nil, errors.New("std::bad_alloc") // as DuckDB says it
	}
	cdata.ExportArrowSchema(f.schema, (*cdata.CArrowSchema)(unsafe.Pointer(&s.c.schema)))
	cdata.ExportRecordReader(f, (*cdata.CArrowArrayStream)(unsafe.Pointer(&s.c.rows)))
	return s, nil
}

// register makes the stream readable as a view.
func (s *stream) register(db *DB, view string) error {
	handle := reflect.ValueOf(db.conn).Elem().FieldByName("conn").FieldByName("Ptr") // which the driver keeps to itself
	state := arrowmapping.ArrowScan(mapping.Connection{Ptr: handle.UnsafePointer()}, view, arrowmapping.ArrowStream{Ptr: unsafe.Pointer(&s.c.shown)})
	if state == mapping.StateError {
		return fmt.Errorf("DuckDB refused the columns of view %s", view)
	}
	return nil
}

// release is called after the instance has ended.
func (s *stream) release() {
	cdata.ReleaseCArrowArrayStream((*cdata.CArrowArrayStream)(unsafe.Pointer(&s.c.rows)))
	cdata.ReleaseCArrowSchema((*cdata.CArrowSchema)(unsafe.Pointer(&s.c.schema)))
	C.free(unsafe.Pointer(s.c))
}

// feed registers a view that shows what it is given.
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
