package notify

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"outlierd/sync/store"
)

const mostRecent = 1000

// Notification is an event and the targets that are notified of it.
type Notification struct {
	Event
	Targets string // their names
	Waits   bool   // a target has not accepted it yet
}

// Recent returns the newest events since a time, at most most of them, newest first. It omits those of
// runs that started or succeeded. It reads only the last [mostRecent] rows of the outbox, so its cost
// does not depend on the number of events in a month.
func Recent(db *store.Store, since time.Time, most int) (all []Notification, err error) {
	type row struct {
		payload, targets string
		waits            bool
	}
	err = db.View(func(tx *store.Tx) error {
		rows, err := store.List(tx, func(r *row) []any { return []any{&r.payload, &r.targets, &r.waits} },
			`SELECT max(payload), group_concat(substr(target, 1, instr(target || ' ', ' ') - 1), ', ' ORDER BY id),
				min(delivered) = 0 FROM (SELECT * FROM notify_outbox ORDER BY id DESC LIMIT `+strconv.Itoa(mostRecent)+`)
				WHERE created >= ? AND kind NOT IN (?, ?, ?) GROUP BY event ORDER BY max(id) DESC LIMIT ?`,
			store.Micros(since), string(Published), string(Started), string(Test), most)
		for i := 0; err == nil && i < len(rows); i++ {
			names := slices.Compact(strings.Split(rows[i].targets, ", ")) // a mail has a row for each recipient
			one := Notification{Targets: strings.Join(names, ", "), Waits: rows[i].waits}
			err = json.Unmarshal([]byte(rows[i].payload), &one.Event)
			all = append(all, one)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the sent notifications: %w", err)
	}
	return all, nil
}
