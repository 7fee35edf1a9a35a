package job

import (
	"net/url"
	"time"

	"outlierd/outlier"
)

// Inputs is what resolving a job needs from outside the file.
type Inputs struct {
	Now time.Time

	// Since is the service's time at which page one of the last complete search with
	// this watermark was asked for, or zero if there was none.
	Since func(watermark string) (time.Time, error)

	// IDs runs SQL over the user's tables and returns the texts of one column: of the
	// named one, or of the first if column is "".
	IDs func(sql, column string) ([]string, error)
}

// Resolved is what a job asks for now: either asks or ids of free data.
type Resolved struct {
	Asks []Ask
	IDs  []string // of channels and videos: without repetitions, in order
}

// Ask is one search of a job, each page of which is one paid request, or the start of
// one scan.
type Ask struct {
	Op             outlier.Operation
	Params         url.Values // as they are sent, without from and size
	Item           string     // the values of for_each, joined by " / "
	Queries, Seeds []string   // what is searched for, and what it is to resemble

	// Watermark identifies the search through time: what is asked for and where, but
	// not its filters. It is short JSON.
	Watermark string

	Read   *Ask // of a scan: the search that reads its results, which yet lacks referenceId
	Afresh bool // its window begins with `first`, since nothing is known
}

// Resolve is what the job asks for, given what is known now. It reads files and may
// run SQL, and changes nothing.
func (s *Spec) Resolve(in Inputs) (Resolved, error) {
	return Resolved{}, nil
}

type template struct{}
