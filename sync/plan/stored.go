package plan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"time"

	"outlierd/outlier"
	"outlierd/sync/job"
)

// Stored is what a run keeps of its job beside the steps. It is written when the
// run begins and read when it resumes, so an edit of the file never changes a run
// that is half done.
type Stored struct {
	// Of a run that a person has overridden, which tells nothing of the file.
	Overridden bool       `json:"overridden,omitempty"`
	Flags      string     `json:"flags,omitempty"`       // by which it was overridden, as they are typed
	Backfill   *job.Dates `json:"backfill,omitempty"`    // the dates of a backfill
	MoveCursor bool       `json:"move_cursor,omitempty"` // it moves the job's cursors nevertheless

	// Unsure is the time that was believed when the job was resolved, if it was not
	// agreed on with the service.
	Unsure time.Time `json:"unsure,omitzero"`

	// PublishedAt is as the file has it, or [AnyTime]; "" if the job asks for nothing,
	// and in plans of earlier versions.
	PublishedAt string        `json:"published_at,omitempty"`
	Pages       int           `json:"pages,omitempty"` // per step; job.AllPages for all that there are
	NewBelow    float64       `json:"new_below,omitempty"`
	ReuseFor    time.Duration `json:"reuse_for,omitempty"`

	// Of the hits, which are best and what is fetched for them. EnrichWhere chooses them;
	// see [Stored.HitParams].
	Sort        string `json:"sort,omitempty"`
	Ascending   bool   `json:"ascending,omitempty"`
	Enrich      []Call `json:"enrich,omitempty"`
	EnrichWhere string `json:"enrich_where,omitempty"`

	// Cap is the worst case when the run began, answers that are lost included. Most is
	// the same if there were no per_run, which may be raised meanwhile.
	Cap         outlier.Credits `json:"cap"`
	Most        outlier.Credits `json:"most,omitempty"`
	StopAfter   time.Duration   `json:"stop_after,omitempty"`
	MaxRequests int             `json:"max_requests,omitempty"`

	Share      *outlier.Credits `json:"share,omitempty"`   // of the month, if it is less than the searches cost
	SharePages map[int]int      `json:"rations,omitempty"` // that the share has for each step, by ordinal

	// Ends are the pages with which each step ends, by ordinal, of a run that buys the
	// rest of another.
	Ends map[int]int `json:"ends,omitempty"`

	// Of a watch: what is fetched about each of IDs. Since is its due instant, or its
	// start if a person began it.
	Fetch []Call    `json:"fetch,omitempty"`
	IDs   []string  `json:"ids,omitempty"`
	Since time.Time `json:"since,omitzero"`

	// Of scans. With Again they are bought also where a live one of the same could be
	// joined. Joins and Reads are by the step's ordinal: the scans to be joined, as it
	// was when the run began, and how each scan's results are read.
	Scan  *job.Scan      `json:"scan,omitempty"`
	Again bool           `json:"again,omitempty"`
	Joins map[int]string `json:"joins,omitempty"`
	Reads map[int]Read   `json:"reads,omitempty"`
}

func newStored(spec *job.Spec) Stored {
	return Stored{
		Overridden:  spec.Overridden,
		Flags:       spec.Flags,
		Backfill:    spec.Dates,
		MoveCursor:  spec.MoveCursor,
		Pages:       cmp.Or(spec.Pages, 1),
		NewBelow:    spec.NewBelow,
		ReuseFor:    spec.ReuseFor,
		Sort:        spec.EnrichSort.By,
		Ascending:   spec.EnrichSort.Ascending,
		Enrich:      EnrichCalls(spec),
		Fetch:       FetchCalls(spec),
		StopAfter:   spec.StopAfter,
		MaxRequests: spec.Budget.MaxRequests,
		Scan:        spec.Scan,
		Again:       spec.Again,
	}
}

// EnrichCalls are the data calls that a run of spec makes about its hits.
func EnrichCalls(spec *job.Spec) []Call { return complete(spec.Enrich, freshFor) }

// FetchCalls are the data calls that a run of spec makes about the ids that it names.
func FetchCalls(spec *job.Spec) []Call { return complete(spec.Fetch, freshForNamed) }

// complete are calls with all that the job leaves to the program, which has ages for it.
func complete(wanted []job.Enrich, ages map[outlier.Operation]time.Duration) []Call {
	var all []Call
	for _, e := range wanted {
		all = append(all, Call{
			Op: e.Op, Top: e.Top, TopPerItem: e.TopPerItem,
			RefreshAfter: cmp.Or(e.RefreshAfter, ages[e.Op]), Value: cmp.Or(float64(e.Value), worth[e.Op]),
		})
	}
	return all
}

// Call is one kind of data call that a run makes: about its hits, or about given ids.
type Call struct {
	Op         outlier.Operation `json:"op"`
	Top        int               `json:"top,omitempty"`          // 0 means every hit
	TopPerItem int               `json:"top_per_item,omitempty"` // of each step; 0 means every hit
	Value      float64           `json:"value"`

	// RefreshAfter is the age up to which an answer is fresh. For a watch 0 means that
	// only what was received since it was due is.
	RefreshAfter time.Duration `json:"refresh_after"`
}

// String is what the file says of the calls.
func (c Call) String() string {
	text := "all"
	switch {
	case c.Top > 0 && c.TopPerItem > 0:
		text = fmt.Sprintf("top %d, %d per item", c.Top, c.TopPerItem)
	case c.TopPerItem > 0:
		text = fmt.Sprintf("top %d per item", c.TopPerItem)
	case c.Top > 0:
		text = fmt.Sprintf("top %d", c.Top)
	}
	if c.RefreshAfter == 0 {
		return text + " each time"
	}
	if c.RefreshAfter < Once {
		text += " again after " + job.Duration(c.RefreshAfter).String()
	}
	return text
}

// Once is the age of answers that never change, and are fetched once.
const Once = 100 * 365 * 24 * time.Hour

// freshFor is how old an answer may be before it is asked for again, where the job
// does not say. A transcript never changes.
var freshFor = map[outlier.Operation]time.Duration{
	outlier.OpChannelVideos: 7 * 24 * time.Hour,
	outlier.OpChannelShorts: 7 * 24 * time.Hour,
	outlier.OpTranscript:    Once,
	outlier.OpComments:      2 * 24 * time.Hour,
	outlier.OpDetails:       24 * time.Hour,
}

// freshForNamed is freshFor of what a job of channels or videos names: that is wanted each
// time the job is due, but for what never changes.
var freshForNamed = map[outlier.Operation]time.Duration{outlier.OpTranscript: Once}

// worth orders data calls by what one request brings. A channel page holds up to
// 120 uploads and the channel's statistics; a transcript never changes; comments
// are a hundred rows; a hit already carries most of the details. A job may say
// otherwise.
var worth = map[outlier.Operation]float64{
	outlier.OpChannelVideos: 5,
	outlier.OpChannelShorts: 4,
	outlier.OpTranscript:    3,
	outlier.OpComments:      2,
	outlier.OpDetails:       1,
}

// JudgedAt is when a watch judges what is fresh: now for one that began under a version
// that did not keep it.
func (f *Stored) JudgedAt(now time.Time) time.Time { return cmp.Or(f.Since, now) }

// FreshSince is when what a watch asks for must have been received not to be asked for
// again. It counts from the due instant, so that a run that is continued asks for no more
// than it did before.
func (f *Stored) FreshSince(call Call, now time.Time) time.Time {
	return f.JudgedAt(now).Add(-call.RefreshAfter)
}

// Teaches reports whether the run moves the job's cursors, and learns what holds for later
// runs. One that a person has overridden leaves all that as it was, unless they say so.
func (f *Stored) Teaches() bool { return !f.Overridden || f.MoveCursor }

// BuyRest makes the plan of a run that of one that buys what it left; flags are those of the
// command that does.
func (f *Stored) BuyRest(flags string) {
	f.Flags, f.Ends = flags, map[int]int{}
	f.Share, f.SharePages, f.NewBelow = nil, nil, 0 // the person wants all of it
	f.Again = false
	f.Fetch, f.IDs, f.Scan, f.Joins, f.Reads = nil, nil, nil, nil, nil
	f.Unsure = time.Time{}
}

// CapFor is the most that the run may hold: its worst case, or what the job says if that is
// less. A per_run that was changed since the run began applies at once.
func (f *Stored) CapFor(own job.JobBudget) outlier.Credits {
	most := f.Cap
	if own.PerRun != nil {
		most = min(*own.PerRun, cmp.Or(f.Most, *own.PerRun)) // none was kept by earlier versions
	}
	if f.Share != nil {
		most = min(most, *f.Share)
	}
	return most
}

// PagesOf is how many pages the search of a step has at most, by the job, or where the run
// buys the rest of another, with those that it takes.
func (f *Stored) PagesOf(ordinal int) int {
	if f.Ends != nil {
		return f.Ends[ordinal]
	}
	return f.Pages
}

// MostPages is the most that any search of the run has.
func (f *Stored) MostPages() int {
	most := f.Pages
	if f.Ends != nil {
		most = 0
	}
	for _, end := range f.Ends {
		most = max(most, end)
	}
	return most
}

// LimitOf is PagesOf, or less if the run's budget share has fewer for it. scan is that whose
// results the step reads: these are paid for, and no share cuts them.
func (f *Stored) LimitOf(ordinal int, scan string) int {
	if f.SharePages == nil || scan != "" {
		return f.PagesOf(ordinal)
	}
	return min(f.PagesOf(ordinal), f.SharePages[ordinal])
}

// ReadPages is how many pages of each scan's results the run reads at most.
func (f *Stored) ReadPages() int { return f.Scan.Pages(f.Pages) }

// HitParams are the parameters of the [outlier.HitFilter] that chooses hits; none for all.
func (f *Stored) HitParams() url.Values {
	params, _ := url.ParseQuery(f.EnrichWhere) // it was encoded by us
	return params
}

// Encode is the plan as the run's record keeps it.
func (f Stored) Encode() ([]byte, error) { return json.Marshal(f) }

// Decode reads what [Stored.Encode] wrote, also under an earlier version.
func Decode(plan []byte) (Stored, error) {
	var f Stored
	if err := json.Unmarshal(plan, &f); err != nil {
		return f, fmt.Errorf("read the run's stored plan: %w", err)
	}
	return f, nil
}

// Read is the search that reads a scan's results, which lacks only the scan's id.
type Read struct{ Query outlier.Query }

// encodedRead is a Read as the run's record keeps it.
type encodedRead struct {
	Params string `json:"params"`
}

// MarshalJSON writes what is kept on record.
func (r Read) MarshalJSON() ([]byte, error) { return json.Marshal(encodedRead{r.Query.Encode()}) }

// UnmarshalJSON reads what is on record, also from an earlier version.
func (r *Read) UnmarshalJSON(text []byte) error {
	var s encodedRead
	err := json.Unmarshal(text, &s)
	r.Query = outlier.UncheckedQuery(outlier.OpSearch, s.Params)
	return err
}
