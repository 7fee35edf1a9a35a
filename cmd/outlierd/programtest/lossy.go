package programtest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
)

// LossyStarts is a service whose answers to POST /scan are lost.
type LossyStarts struct {
	Service http.Handler

	mu  sync.Mutex
	ids []string // of the scans that were started
}

// Lost returns the ids of the scans that were started and whose answers were lost.
func (l *LossyStarts) Lost() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.ids)
}

func (l *LossyStarts) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		l.Service.ServeHTTP(w, r)
		return
	}
	answer := httptest.NewRecorder()
	l.Service.ServeHTTP(answer, r)
	var scan struct{ ID string }
	_ = json.Unmarshal(answer.Body.Bytes(), &scan) // without an id the test fails
	l.mu.Lock()
	l.ids = append(l.ids, scan.ID)
	l.mu.Unlock()
	panic(http.ErrAbortHandler)
}
